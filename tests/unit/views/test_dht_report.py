"""The page of a simulated DHT."""

from restante.model.dht_simulation import DhtReport, Loss, Rounds
from restante.views.dht_report import dht_page


def test_the_page_of_the_simulation_has_a_plot_for_each_case() -> None:
    found = DhtReport(
        nodes=9,
        rounds=(Rounds(offline=0.0, rounds=3, lookups=5), Rounds(offline=0.5, rounds=4, lookups=5)),
        losses=(Loss(copies=3, lifetime_h=1.0, share=0.5), Loss(copies=5, lifetime_h=1.0, share=0.1)),
    )
    page = dht_page(found)
    assert page.count("<svg") == 4
    assert "<script" not in page
