"""The definitions of the tables, the page about them and the tables themselves agree."""

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from restante.fleet.stream.state_tables import KINDS
from restante.fleet.tables.base_tables import BASE
from restante.fleet.tables.definitions import TABLES, fleet_tables
from restante.fleet.tables.journal_schema import JOURNAL
from restante.policy.dead_letters import DeadLetterRetention
from support.docs.tables_page import PAGE, page


def test_the_page_is_made_from_the_definitions() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_every_derived_table_has_the_columns_of_its_definition(spark: SparkSession) -> None:
    made = fleet_tables(spark.createDataFrame([], JOURNAL), now_ms=0, retention=DeadLetterRetention())
    for name, rows in made.by_name.items():
        found = [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]
        assert found == [(column.name, column.type) for column in TABLES[name].columns], name


def test_every_base_table_is_stored_with_the_columns_of_its_definition() -> None:
    for table in BASE:
        stored: pa.Schema = KINDS[table.name].delta
        found = [(field.name, field.dataType.simpleString()) for field in from_arrow_schema(stored).fields]
        assert found == [(column.name, column.type) for column in table.columns], table.name
        assert KINDS[table.name].partition == table.partition
