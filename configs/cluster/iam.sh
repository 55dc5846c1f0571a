#!/usr/bin/env bash
# What the accounts may do in Google Cloud: the bucket, and no more; for Vertex AI also to find the cluster. Apply
# rbac.yaml first, then run this as someone who may grant roles. It prints each command before it runs it, and can be
# run again; --dry-run only prints.
#
#   PROJECT=my-project BUCKET=my-bucket NAMESPACE=ml-team NODE_ACCOUNT=gke-nodes@my-project.iam.gserviceaccount.com \
#     bash configs/cluster/iam.sh
#
# PROJECT, BUCKET   where the cluster is, and the bucket of the runs
# NAMESPACE         the namespace of rbac.yaml
# NODE_ACCOUNT      the service account of the node pools: pods on the host's network (Pathways) act as their node
# REPOSITORY        optional: LOCATION/NAME of the Artifact Registry repository that nodes fetch the project's images from
# SUBMITTER         optional: who starts pipelines on Vertex AI, such as user:me@example.com; makes the account for them
set -euo pipefail
: "${PROJECT:?}" "${BUCKET:?}" "${NAMESPACE:?}" "${NODE_ACCOUNT:?}"
dry=${1:-}
[[ $dry == "" || $dry == --dry-run ]] || { echo "unknown option $dry; there is only --dry-run" >&2; exit 2; }
run() {
  echo "+ $*"
  [[ -n $dry ]] || "$@" >/dev/null
}

number=$(gcloud projects describe "$PROJECT" --format="value(projectNumber)")
pool=principal://iam.googleapis.com/projects/$number/locations/global/workloadIdentityPools/$PROJECT.svc.id.goog
members=("$pool/subject/ns/$NAMESPACE/sa/posttrain-launcher" "$pool/subject/ns/$NAMESPACE/sa/posttrain-workload")
members+=("serviceAccount:$NODE_ACCOUNT")

if [[ -n ${SUBMITTER:-} ]]; then
  launcher=posttrain-launcher@$PROJECT.iam.gserviceaccount.com
  gcloud iam service-accounts describe "$launcher" --project="$PROJECT" >/dev/null 2>&1 ||
    run gcloud iam service-accounts create posttrain-launcher --project="$PROJECT" --display-name="posttrain launcher"
  members+=("serviceAccount:$launcher")
  # run pipeline steps; find the cluster and connect to it, which gives no right in it
  for role in roles/aiplatform.user roles/container.clusterViewer; do
    run gcloud projects add-iam-policy-binding "$PROJECT" --member="serviceAccount:$launcher" --role="$role" --condition=None
  done
  run gcloud iam service-accounts add-iam-policy-binding "$launcher" --project="$PROJECT" --member="$SUBMITTER" \
    --role=roles/iam.serviceAccountUser
  # in the cluster, the rights of rbac.yaml
  run kubectl delete rolebinding posttrain-launcher-google --namespace="$NAMESPACE" --ignore-not-found
  run kubectl create rolebinding posttrain-launcher-google --namespace="$NAMESPACE" --role=posttrain-launcher --user="$launcher"
fi

for member in "${members[@]}"; do
  # objects; and storage.buckets.get, which Orbax and gcsfs ask for and no role for objects has
  for role in roles/storage.objectUser roles/storage.legacyBucketReader; do
    run gcloud storage buckets add-iam-policy-binding "gs://$BUCKET" --member="$member" --role="$role"
  done
done

if [[ -n ${REPOSITORY:-} ]]; then
  run gcloud artifacts repositories add-iam-policy-binding "${REPOSITORY#*/}" --project="$PROJECT" \
    --location="${REPOSITORY%%/*}" --member="serviceAccount:$NODE_ACCOUNT" --role=roles/artifactregistry.reader
fi
