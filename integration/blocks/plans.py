"""How each block is run, or which other test checks it. A block is named by words that only it holds in its page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.blocks.gather import Block

WAREHOUSE = "/data/warehouse"
"""Where pages have tables; a temporary directory stands in for it."""

_FILL = "kafka2011 generate --seconds 3 --rate 200 >&2\n"
_SCHEMA = """python - <<'END'
import os
from kafka2011 import connect
from kafka2011.events import SchemaRegistry, event_schema

VIEW = event_schema("View", {"name": "member_id", "type": "long"}, {"name": "url", "type": "string"})
with connect(os.environ["KAFKA2011_ZK_CONNECT"]) as client:
    SchemaRegistry(client).register("views", VIEW)
END
"""
_LOAD = f"kafka2011 load --master none --warehouse {WAREHOUSE} --topic page_views --topic clicks >&2\n"
_NO_SPARK = {"kafka2011 load ": "kafka2011 load --master none "}


@dataclass(frozen=True, slots=True)
class Step:
    """One block to run: commands `before` and `after` it in the same directory, and what all of them print.

    `prints` is a pattern; `replaced` are words of the page and what stands for them here. An `endless` block gets
    Ctrl-C once it has printed that. `prelude` and `postlude` are Python around a block of Python. One that `continues`
    uses names of the page's Python blocks before it.
    """

    holding: str
    prints: str = ""
    before: str = ""
    after: str = ""
    prelude: str = ""
    postlude: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a page, in order. `clusters` are the addresses that the page names, each a cluster here."""

    page: str
    steps: tuple[Step, ...]
    clusters: tuple[str, ...] = ("localhost:2181",)


_ORDER_FILES = """\
cat > money.avsc <<'END'
{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
END
cat > line.avsc <<'END'
{"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "price", "type": "shop.Money"}]}
END
cat > order.avsc <<'END'
{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "published_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "server", "type": "string"},
  {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
  {"name": "lines", "type": {"type": "array", "items": "shop.Line"}}
]}
END
"""

PLANS = (
    Plan(
        "README.md",
        (
            Step('key="member-42"'),
            Step('"groupid": "reports"}) as consumer', r"(?s)(?=.*b'one')(?=.*b'two')(?=.*b'three')", endless=True),
        ),
    ),
    Plan(
        "docs/how-to/admin.md",
        (
            Step("with Admin(", r"(?s)^views/0-0 .*^views/0-5 .*^views/0-0 "),
            Step("topics create", r"(?s)views .* 4$.*views .* 4$"),
            Step("topics grow", r"(?s)has them.*deletes it.*deleted"),
        ),
    ),
    Plan("docs/how-to/asyncio.md", (Step("AsyncioConsumer(", r"^100 with .*\nb'one'$"),)),
    Plan(
        "docs/how-to/audit.md",
        (
            Step('open_counter("producer"', before=_SCHEMA),
            Step(
                "AuditedConsumer(",
                continues=True,
                replaced={'"groupid": "reports"}': '"groupid": "reports", "consumer.timeout.ms": 2000}'},
            ),
            Step("print(watermark(", r"^Complete\(through_ms=", continues=True),
        ),
    ),
    Plan(
        "docs/how-to/collect.md",
        (
            Step(
                "CollectOptions(",
                r"(?s)one.*two",
                before="printf 'one\\ntwo\\n' > access.log",
                after="kafka2011 fetch access",
            ),
        ),
    ),
    Plan(
        "docs/how-to/consumers.md",
        (
            Step(
                '{"orders": 1}',
                r"^orders 0 b'one'$",
                before="printf 'one\\n' | kafka2011 produce orders >&2",
                endless=True,
            ),
            Step("class Sums("),
        ),
    ),
    Plan(
        "docs/how-to/events.md",
        (
            Step("EventEncoder(registry", r"^kafka2011\.View \S+ /jobs$"),
            Step(
                "schemas register views",
                r"views",
                before="kafka2011 schemas show views > view.avsc",
            ),
            Step("schemas register orders", r"orders", before=_ORDER_FILES),
            Step("schemas compatibility", r"backward"),
            Step("kafka2011 generate", r"page_views", replaced={"--seconds 60": "--seconds 1"}),
        ),
    ),
    Plan(
        "docs/how-to/load.md",
        (
            Step("--topic clicks\n", before=_FILL, replaced=_NO_SPARK, prints="page_views"),
            Step(
                "for loaded in load(",
                r"^page_views \d+ 0\nclicks \d+ 0$",
                before=_FILL,
                replaced={'zk_connect="localhost:2181")': 'zk_connect="localhost:2181", master="none")'},
            ),
            Step("tables status", "page_views"),
        ),
    ),
    Plan(
        "docs/how-to/mirror.md",
        (
            Step(
                "source_config(",
                r"\S+ \d+\S* \d+$",
                before="kafka2011 topics create views --zookeeper live:2181 >&2",
                replaced={"mirror.wait(10)": "mirror.wait(1)"},
                endless=True,
            ),
        ),
        ("live:2181", "offline:2181"),
    ),
    Plan("docs/how-to/monitoring.md", (Step("ConsumerCollector(", replaced={"(9000)": "(0)"}),)),
    Plan(
        "docs/how-to/producers.md",
        (
            Step('key="member-7"', r"^2 messages, confirmed: True$"),
            Step("SyncProducer(", r"(?s)^0 \d+ b'one'"),
            Step("KafkaLogHandler("),
        ),
    ),
    Plan("docs/reference/api.md", (Step("AsyncioProducer"),), ()),
    Plan(
        "docs/how-to/security.md",
        (Step("--deploy machines", after="ls machines", prints=r"(?s)zk-1.*zk-2.*zk-3"),),
        (),
    ),
    Plan(
        "docs/how-to/warehouse.md",
        (
            Step('kafka2011_offset") >= 100', before=_FILL + _LOAD, after="", prints=""),
            Step('duckdb.sql("select url, count(*) from views'),
            Step("polars.scan_delta("),
            Step("promote_options="),
            Step("tables compact"),
            Step("tables swap", replaced=_NO_SPARK),
        ),
    ),
)

_SPARK = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from kafka2011.spark import register
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
register(spark)
"""
_VIEWS = "printf 'one\\ntwo\\n' | kafka2011 produce views >&2\n"
_COUNTED = r"(?s)brokerId\|partition\|count.*\|\s+0\|\s+0\|\s+2\|"

PROOF_PLANS = (
    Plan("README.md", (Step('option("subscribe", "views").load()', _COUNTED, before=_VIEWS, prelude=_SPARK),)),
    Plan(
        "docs/how-to/spark.md",
        (
            Step("views.groupBy(", _COUNTED, before=_VIEWS, prelude=_SPARK),
            Step("resolve_offsets(", prelude=_SPARK, after="kafka2011 groups --group loads", prints="views"),
            Step(
                "writeStream",
                "(?s)one.*two",
                prelude=_SPARK,
                postlude="\nquery.processAllAvailable()\nquery.stop()\n",
                after="kafka2011 fetch copy",
            ),
            Step("StreamingQueryListener", prelude=_SPARK),
        ),
    ),
    Plan(
        "docs/how-to/reports.md",
        (
            Step(
                "--from-brokers",
                before="kafka2011 generate --seconds 3 --rate 200 >&2\n"
                f"kafka2011 load --master none --warehouse {WAREHOUSE} --whitelist '.*' >&2\n",
                after="ls /data/reports",
                prints="html",
            ),
        ),
    ),
)
"""What needs a Spark session: under `make proof`."""

ELSEWHERE = {
    ("README.md", "pip install ."): "integration/test_pasted_commands.py",
    ("README.md", "make demo"): "proof/test_demo.py",
    ("README.md", "make up"): "integration/compose/test_cluster.py",
    ("docs/how-to/lab.md", ""): "tests/cli/test_lab.py",
    ("docs/how-to/operations.md", ""): "integration/operations/test_page.py",
    ("docs/how-to/teaching.md", ""): "tests/test_teaching.py",
    ("docs/how-to/testing.md", "def test_clicks_arrive"): "integration/test_testing.py",
    ("docs/how-to/warehouse.md", "duckdb_extension_delta"): "proof/test_readers.py",
    ("docs/how-to/warehouse.md", "configure_spark_with_delta_pip"): "proof/test_readers.py",
    ("docs/how-to/audit.md", "--write-pipeline"): "integration/test_audit_doubts.py",
    ("docs/how-to/reports.md", "audit.json"): "proof/test_pipeline.py",
    ("docs/how-to/reports.md", "click_through.py"): "integration/spark/test_click_through.py",
    ("docs/tutorials/tour.md", ""): "integration/test_tour.py",
    ("docs/reference/commands.md", ""): "tests/test_commands_in_docs.py",
}
"""Page and words (none: every other block of the page) to the test that runs or checks these blocks."""


def status_of(block: Block) -> tuple[str, str]:
    """Return `run`, `proof`, `elsewhere`, `marked` or `nothing` for a block, and the test or the reason."""
    for plans, status, test in (
        (PLANS, "run", "integration/blocks/test_blocks.py"),
        (PROOF_PLANS, "proof", "proof/test_blocks.py"),
    ):
        for plan in plans:
            if plan.page == block.page and any(step.holding in block.text for step in plan.steps):
                return status, test
    if block.why_not:
        return "marked", block.why_not
    for (page, holding), test in ELSEWHERE.items():
        if page == block.page and holding in block.text:
            return "elsewhere", test
    return "nothing", ""
