"""What the figures mean: findings, and the status, cause and headline of a run."""

from netlab.diagnose.conclusion import Conclusion, conclude, judge
from netlab.diagnose.findings import diagnose
from netlab.diagnose.timeline import Timeline

__all__ = ["Conclusion", "Timeline", "conclude", "diagnose", "judge"]
