"""Every property of the audit, in the order of the catalogue.

A property is a pure function of a `History` to a `Finding`: how many rows it is about, and the rows
that break it. No violation means that it holds.
"""

from typing import Final

from evensong.spark.properties.finding import Finding, Property

__all__ = ["PROPERTIES", "Finding", "Property"]

RING: Final[tuple[Property, ...]] = ()

PROPERTIES: Final[dict[str, Property]] = {one.id: one for one in RING}
