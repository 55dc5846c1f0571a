"""What made a model, and what was made from its data: `posttrain lineage`.

records.py reads the records that lie beside the data, graph.py follows them both ways from a run, an artifact or a
source, text.py prints two trees, page.py draws the graph as a page.
"""

from pipelines.lineage.graph import trace
from pipelines.lineage.page import write
from pipelines.lineage.text import trees

__all__ = ["trace", "trees", "write"]
