terraform import cadre_gate.season web/season
