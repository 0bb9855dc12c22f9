package rig

import (
	"fmt"
	"io"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/operation"
)

// Narrator prints the demo's progress line by line, with the time since it began. On a terminal one
// more line shows the state of the Slots and is redrawn.
type Narrator struct {
	out   io.Writer
	tty   bool
	began time.Time
	live  bool
	seen  map[string]string
}

// NewNarrator writes to out; tty says that lines may be redrawn.
func NewNarrator(out io.Writer, tty bool, began time.Time) *Narrator {
	return &Narrator{out: out, tty: tty, began: began, seen: map[string]string{}}
}

// Say prints one line of the story.
func (n *Narrator) Say(format string, args ...any) {
	n.erase()
	fmt.Fprintf(n.out, "%6.1fs  %s\n", time.Since(n.began).Seconds(), fmt.Sprintf(format, args...))
}

// Rollout prints the changes since the last view.
func (n *Narrator) Rollout(v client.View) {
	for _, i := range v.Status.Instances {
		now := string(i.State)
		if i.Phase != "" {
			now = i.Phase
		}
		key := now + "/" + i.Role + "/" + short(i.Observed)
		if n.seen[i.Slot] == key {
			continue
		}
		n.seen[i.Slot] = key
		if i.Phase != "" || i.State == client.StateAvailable {
			n.Say("  %-12s %-10s %-9s revision %s", i.Slot, strings.ToLower(now), i.Role, short(i.Observed))
		}
	}
	if !n.tty {
		return
	}
	n.erase()
	fmt.Fprintf(n.out, "         %s", v.Status.Message)
	n.live = true
}

func (n *Narrator) erase() {
	if n.live {
		fmt.Fprint(n.out, "\r\033[K")
		n.live = false
	}
}

func short(revision string) string {
	if len(revision) > 8 {
		return revision[:8]
	}
	return revision
}

// Summary prints the figures of a finished run.
func (n *Narrator) Summary(r Report) {
	n.erase()
	w := n.out
	fmt.Fprintf(w, "\n  %-12s %5s  %-8s %-18s %11s %6s\n", "slot", "order", "role", "revision", "unavailable", "disk")
	for _, s := range r.Slots {
		role, disk := "replica", "lost"
		if s.Led {
			role = "leader"
		}
		if s.DiskKept {
			disk = "kept"
		}
		fmt.Fprintf(w, "  %-12s %5d  %-8s %s→%s %9.1f s %6s\n", s.Slot, s.Order, role,
			short(s.RevisionFrom), short(s.RevisionTo), float64(s.UnavailableMS)/1000, disk)
	}
	fmt.Fprintf(w, "\n  writes: %d attempted, %d acknowledged, %d failed, %d acknowledged but missing\n",
		r.Writes.Attempted, r.Writes.Acknowledged, r.Writes.Failed, r.Writes.Missing)
	fmt.Fprintf(w, "  longest write gap: %.1f s during the rollout, %.1f s when the leader was killed\n",
		float64(r.GapMS.Planned)/1000, float64(r.GapMS.Unplanned)/1000)
	for _, way := range ways {
		if seen := r.Ways[way]; seen != nil {
			fmt.Fprintf(w, "    by the way %-8s %.1f s and %d failed during the rollout, %.1f s and %d failed at the kill\n", string(way)+":",
				float64(seen.PlannedGapMS)/1000, seen.PlannedFailed, float64(seen.UnplannedGapMS)/1000, seen.UnplannedFailed)
		}
	}
	fmt.Fprintf(w, "  leadership moves during the rollout: %d\n", r.LeadershipMoves)
	for _, h := range r.Heals {
		fmt.Fprintf(w, "  %s: %s: available again automatically after %.0f s, of which the platform %.1f s\n", h.Slot, h.Harm, h.DownS, h.PlatformS)
	}
	fmt.Fprintf(w, "  rollout: %.0f s, %.0f %% over platform time and min_ready; all: %.0f s\n",
		r.RolloutS, r.OverheadPercent, r.AllS)
}

// phaseText lists an Operation's phases and their times, for people.
func phaseText(phases map[string]int64) string {
	var parts []string
	for _, phase := range phaseOrder {
		if ms, ok := phases[string(phase)]; ok && phase != operation.Done {
			parts = append(parts, fmt.Sprintf("%s %.1fs", strings.ToLower(string(phase)), float64(ms)/1000))
		}
	}
	return strings.Join(parts, ", ")
}
