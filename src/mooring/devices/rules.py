"""In which details the allocator differs between versions of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Each is a change in ``config.versions``, or a gate; all are off in 1.36."""

    distinct_sees_every_device: bool = False
    all_counts_full_devices: bool = False
    writes_configuration_once: bool = False
    errors_name_the_device: bool = False
    shares_draw_counters_once: bool = False
    refuses_odd_amounts: bool = False
    keeps_notation: bool = False
    counts_milli: bool = False
    counters_have_nodes: bool = False
    leaves_out_groups: bool = False

    @classmethod
    def of(cls, is_enabled: Callable[[str], bool]) -> Rules:
        return cls(
            distinct_sees_every_device=is_enabled("DistinctAttributeSeesEveryDevice"),
            all_counts_full_devices=is_enabled("AllCountsFullDevices"),
            writes_configuration_once=is_enabled("ConfigurationIsWrittenOnce"),
            errors_name_the_device=is_enabled("SelectorErrorsNameTheDevice"),
            shares_draw_counters_once=is_enabled("SharesDrawCountersOnce"),
            refuses_odd_amounts=is_enabled("OddAmountsAreErrors"),
            keeps_notation=is_enabled("RoundedAmountsKeepNotation"),
            counts_milli=is_enabled("DRAFractionalCapacityRange"),
            counters_have_nodes=is_enabled("CountersStayOnTheirNodes"),
            leaves_out_groups=is_enabled("CompatibilityGroupsAreLeftOut"),
        )


FIRST_RULES = Rules()
