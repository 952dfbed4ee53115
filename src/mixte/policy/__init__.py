"""Which layer runs in which precision, and why: policies, their rules and presets, and ``policy.toml``."""

from mixte.policy._decision import Decision as Decision, Origin as Origin
from mixte.policy._layer import LayerDescription as LayerDescription
from mixte.policy._load import load_policy as load_policy
from mixte.policy._loss_scale import LossScaleSpec as LossScaleSpec
from mixte.policy._policy import Policy as Policy
from mixte.policy._precision import Precision as Precision
from mixte.policy._presets import PRESET_NAMES as PRESET_NAMES, Recommendation as Recommendation
from mixte.policy._rule import Rule as Rule
from mixte.policy._selectors import (
    ActivityRegularized as ActivityRegularized,
    ByActivation as ByActivation,
    ByClass as ByClass,
    ByPath as ByPath,
    ByPredicate as ByPredicate,
    Outputs as Outputs,
    Selector as Selector,
    describe_selector as describe_selector,
)
from mixte.policy._table import (
    UnmatchedRule as UnmatchedRule,
    decision_table as decision_table,
    unmatched_rules as unmatched_rules,
)
from mixte.policy._toml_read import parse_policy as parse_policy, read_policy as read_policy
from mixte.policy._toml_write import format_policy as format_policy, write_policy as write_policy
