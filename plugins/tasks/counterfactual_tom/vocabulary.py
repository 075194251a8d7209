"""Names, objects and places: one pool for each split, so that nothing seen in training is seen
again.

Each pool has enough places for the fifteen options of a question. The preset ``reference`` has one
pool for all splits, as the study had.

>>> TRAIN.names & VALIDATION.names, VALIDATION.places & TEST.places
(frozenset(), frozenset())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pool:
    """The words that the stories of a split are made of. Tuples are in a fixed order."""

    name_list: tuple[str, ...]
    object_list: tuple[str, ...]
    place_list: tuple[str, ...]
    room_list: tuple[str, ...]
    prop_list: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names as a set."""
        return frozenset(self.name_list)

    @property
    def objects(self) -> frozenset[str]:
        """The objects as a set."""
        return frozenset(self.object_list)

    @property
    def places(self) -> frozenset[str]:
        """The places as a set."""
        return frozenset(self.place_list)


def _pool(names: str, objects: str, places: str, rooms: str, props: str) -> Pool:
    split = (tuple(text.split()) for text in (names, objects, places, rooms, props))
    return Pool(*split)


TRAIN: Final = _pool(
    """Adela Bruno Carla Dmitri Esther Farid Gloria Hamid Irene Jonas Katya Leon Mirela Nils
    Odette Pavel Renata Simon Tamara Urban Vera Walter Yara Zeno Anton Bettina Conrad Dora Emil
    Frida Goran Hedda""",
    """stamp compass ribbon lantern coin thimble whistle marble brooch candle bottle letter magnet
    domino postcard locket""",
    """walnut_chest tin_bucket wicker_basket steel_locker linen_sack pine_crate copper_kettle
    velvet_pouch marble_urn birch_drawer canvas_duffel iron_safe bamboo_box clay_pot rubber_bin
    paper_folder glass_jar wool_pouch maple_cabinet bronze_bowl straw_hamper chrome_toolbox
    silk_purse granite_trough""",
    "studio gallery workshop cellar attic",
    "ladder kettle broom radio carpet stool parcel vase",
)
VALIDATION: Final = _pool(
    """Amir Beatrice Cosmo Delphine Enzo Fatima Gustav Helga Ilya Joanna Kofi Lucia Matteo Nadia
    Oskar Priya""",
    "spoon dice feather harmonica medallion padlock ruler teacup",
    """teak_wardrobe pewter_mug reed_pannier zinc_tub denim_knapsack elm_coffer brass_churn
    felt_satchel slate_vat alder_bureau nylon_holdall lead_strongbox cork_case stone_crock
    plastic_tray cardboard_tube""",
    "library kitchen garage",
    "mirror heater blanket bicycle",
)
TEST: Final = _pool(
    """Agnes Boris Chidi Daphne Edgar Flora Gareth Hana Igor Jasmin Kemal Lotte Marek Nora Otto
    Paula""",
    "acorn button chisel figurine hourglass keycard pebble scarab",
    """ebony_dresser nickel_pail rattan_crib cobalt_canister jute_tote cherry_ark bell_jar
    suede_wallet onyx_casket ash_sideboard mesh_rucksack titanium_vault balsa_carton mud_amphora
    foam_chest foil_packet""",
    "observatory greenhouse lobby",
    "bench trolley lamp cushion",
)
POOLS: Final = {"train": TRAIN, "validation": VALIDATION, "test": TEST, "ood": TEST}
"""The pool of each split; ``ood`` is told in the words of ``test``, deeper."""

REFERENCE: Final = Pool(
    (TRAIN.name_list + VALIDATION.name_list)[:48],
    (TRAIN.object_list + VALIDATION.object_list)[:20],
    TRAIN.place_list[:15],
    TRAIN.room_list,
    ("coat", "crate", "plant", "rug", "sofa", "clock", "globe", "bench", "fan", "desk"),
)
"""48 names, 20 objects, 15 places and 10 props, the same in every split."""
