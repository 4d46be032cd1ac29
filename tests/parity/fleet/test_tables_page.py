"""The page of tables says what the tables have."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from restante.fleet.tables.definitions import fleet_tables
from restante.fleet.tables.journal_schema import JOURNAL
from restante.policy.dead_letters import DeadLetterRetention

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "tables.md"
ROW = re.compile(r"^\| (\w+) \| (\S+) \| \S.* \|$", re.MULTILINE)


def test_every_table_and_column_is_on_the_page_with_its_type(spark: SparkSession) -> None:
    _, *sections = PAGE.read_text("utf-8").split("\n## ")
    told = {part.partition("\n")[0]: [row for row in ROW.findall(part) if row[0] != "column"] for part in sections}
    made = fleet_tables(spark.createDataFrame([], JOURNAL), now_ms=0, retention=DeadLetterRetention())
    assert told == {
        name: [(field.name, field.dataType.simpleString()) for field in table.schema.fields]
        for name, table in made.by_name.items()
    }
