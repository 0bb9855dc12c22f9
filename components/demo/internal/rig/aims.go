package rig

import (
	"math"

	"cadre.dev/figures"
)

// Figures are the demo's measured numbers with their targets.
func (r Report) Figures() figures.Result {
	ratio := float64(r.GapMS.Planned) / float64(max(r.GapMS.Unplanned, 1))
	return figures.Result{
		Name: "demo", Rounds: 1, Machine: figures.ThisMachine(),
		Figures: append([]figures.Figure{
			single("acknowledged_writes_missing", "writes", "<= 0", float64(r.Writes.Missing), map[string]float64{
				"acknowledged": float64(r.Writes.Acknowledged), "failed": float64(r.Writes.Failed)}),
			single("planned_gap_vs_unplanned", "ratio", "<= 0.1", ratio, map[string]float64{
				"planned_ms": float64(r.GapMS.Planned), "unplanned_ms": float64(r.GapMS.Unplanned)}),
			single("leadership_moves_off_from_one", "moves", "<= 0", math.Abs(float64(r.LeadershipMoves-1)), nil),
			single("took_s", "s", "<= 240", r.TookS, map[string]float64{"rollout_s": r.RolloutS, "with_healing_s": r.AllS}),
		}, r.wayFigures()...),
	}
}

// single is a figure of one sample.
func single(name, unit, aim string, value float64, detail map[string]float64) figures.Figure {
	return figures.New(name, unit, aim, []float64{value}, detail)
}
