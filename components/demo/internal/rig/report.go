package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/load"
)

// Report is the result of a demo run, written to .out/demo.json.
type Report struct {
	Writes WritesReport `json:"writes"`
	GapMS  GapReport    `json:"gap_ms"`
	// Ways of writing side by side; absent without routes. GapMS, LeadershipMoves and Writes belong
	// to the direct one, but Missing to all of them.
	Ways map[load.Way]*WayReport `json:"ways,omitempty"`
	// LeadershipMoves during the rollout, as the load saw them: changes of the
	// server that acknowledged its writes.
	LeadershipMoves int `json:"leadership_moves"`
	// Transfers are the hand-overs that the agents confirmed, by the rollout's record.
	Transfers int          `json:"transfers"`
	Slots     []SlotReport `json:"slots"`
	// OverheadPercent is the rollout's time over the sum of platform time and
	// min_ready_seconds of its steps.
	OverheadPercent float64 `json:"overhead_percent"`
	// TookS is until the end of the kill's failover, AllS with the members' return.
	TookS    float64 `json:"took_s"`
	AllS     float64 `json:"all_s"`
	RolloutS float64 `json:"rollout_s"`
	// Killed is the Slot whose CVM was killed, Heals lists the automatic recoveries of members.
	Killed   string    `json:"killed,omitempty"`
	KilledAt time.Time `json:"killed_at,omitzero"`
	// killedBoot was the killed CVM's.
	killedBoot string
	Heals      []Healing `json:"heals,omitempty"`
	// Errors of the load by text, over the whole run.
	Errors map[string]int `json:"errors,omitempty"`
}

// WritesReport counts the load's writes over the whole run.
type WritesReport struct {
	Attempted    int `json:"attempted"`
	Acknowledged int `json:"acknowledged"`
	Failed       int `json:"failed"`
	// Missing acknowledged rows in the final read on the leader.
	Missing int `json:"missing"`
}

// GapReport is the longest time between two acknowledged writes, in ms.
type GapReport struct {
	Planned   int64 `json:"planned"`
	Unplanned int64 `json:"unplanned"`
}

// SlotReport is one Slot's part of the rollout.
type SlotReport struct {
	Slot          string           `json:"slot"`
	Order         int              `json:"order"`
	InstanceID    string           `json:"instance_id"`
	DiskKept      bool             `json:"disk_kept"`
	RevisionFrom  string           `json:"revision_from"`
	RevisionTo    string           `json:"revision_to"`
	Admitted      bool             `json:"admitted"`
	UnavailableMS int64            `json:"unavailable_ms"`
	PhasesMS      map[string]int64 `json:"phases"`
	PlatformMS    int64            `json:"platform_ms"`
	Led           bool             `json:"led"`
}

// slotReport derives a Slot's part from the Operation that moved it.
func slotReport(op operation.Operation) SlotReport {
	r := SlotReport{
		Slot: op.Slot, Order: op.Order, InstanceID: op.CVM.InstanceID,
		RevisionFrom: op.From, RevisionTo: op.To, PhasesMS: phases(op),
		Led: op.Transfer != nil,
	}
	if !op.Outage.From.IsZero() && !op.Outage.Until.IsZero() {
		r.UnavailableMS = op.Outage.Until.Sub(op.Outage.From).Milliseconds()
	}
	if !op.Call.IssuedAt.IsZero() && !op.Seen.RunningSince.IsZero() {
		r.PlatformMS = op.Seen.RunningSince.Sub(op.Call.IssuedAt).Milliseconds()
	}
	return r
}

// phaseOrder is the way of an Operation that ends well.
var phaseOrder = []operation.Phase{
	operation.Draining, operation.Drained, operation.Acting,
	operation.Booting, operation.Joining, operation.Settling, operation.Done,
}

// phases returns how long each phase lasted: from its entry to the next entry.
func phases(op operation.Operation) map[string]int64 {
	durations := map[string]int64{}
	var entered time.Time
	var current operation.Phase
	for _, phase := range phaseOrder {
		at, ok := op.Entered[phase]
		if !ok {
			continue
		}
		if current != "" {
			durations[string(current)] = at.Sub(entered).Milliseconds()
		}
		current, entered = phase, at
	}
	return durations
}

// overheadPercent compares a rollout's time with the least time of its platform and its
// min_ready_seconds.
func overheadPercent(total time.Duration, slots []SlotReport, minReady time.Duration) float64 {
	var floor time.Duration
	for _, slot := range slots {
		floor += time.Duration(slot.PlatformMS)*time.Millisecond + minReady
	}
	if floor <= 0 {
		return 0
	}
	return 100 * (float64(total)/float64(floor) - 1)
}

// phaseSums is where the seconds of a rollout went: each phase, and within them the platform,
// over all Slots.
func phaseSums(slots []SlotReport) map[string]float64 {
	sums := map[string]float64{}
	for _, slot := range slots {
		for phase, ms := range slot.PhasesMS {
			sums["all_"+strings.ToLower(phase)+"_s"] += float64(ms) / 1000
		}
		sums["all_platform_s"] += float64(slot.PlatformMS) / 1000
	}
	return sums
}

// Write stores v as indented JSON at path, making its folder.
func Write(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return writeText(path, string(data)+"\n")
}

func writeText(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // reports are for everybody
}

func sortByOrder(slots []SlotReport) {
	slices.SortFunc(slots, func(a, b SlotReport) int { return a.Order - b.Order })
}
