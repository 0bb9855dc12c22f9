package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/demo/load"
)

// PowerReport is the result of the drill of a power loss, written to .out/drill-power.json. Times
// are seconds since the power went.
type PowerReport struct {
	// Processes that were killed, by name.
	Processes map[string]int `json:"processes"`
	// CloudS is when the local cloud answered again, AvailableS when each group was
	// whole, on new Boots of all its Instances.
	CloudS     float64            `json:"cloud_s"`
	AvailableS map[string]float64 `json:"available_s"`
	// GapS is the longest time between two acknowledged writes, as an application sees it.
	GapS float64 `json:"gap_s"`
	// Before is how many writes the load had reported as acknowledged when the power
	// went; Verdict is about those, and all since.
	Before  int            `json:"acknowledged_before"`
	Verdict load.Verdict   `json:"verdict"`
	Errors  map[string]int `json:"errors,omitempty"`
}

// duplicateKey is PostgreSQL's error for an existing id.
const duplicateKey = "SQLSTATE 23505"

// Check says in which way the report is not that of a cluster that lost nothing.
func (p PowerReport) Check() error {
	var errs []error
	v := p.Verdict
	if v.Missing > 0 {
		errs = append(errs, fmt.Errorf("%d of %d acknowledged writes are missing, %d of them from before the power loss: ids %s",
			v.Missing, v.Acknowledged, v.Earlier.Missing, strings.Join(v.MissingIDs, ", ")))
	}
	if v.Earlier.Acknowledged < p.Before {
		errs = append(errs, fmt.Errorf("the load had reported %d acknowledged writes and remembers %d of before its start: its journal lost some", p.Before, v.Earlier.Acknowledged))
	}
	if v.Starts < 2 {
		errs = append(errs, errors.New("the load did not start again: its journal knows one start only"))
	}
	if v.Acknowledged <= v.Earlier.Acknowledged {
		errs = append(errs, errors.New("no write was acknowledged after the power loss"))
	}
	if n := p.Errors[duplicateKey]; n > 0 {
		errs = append(errs, fmt.Errorf("the load met %d rows of its own: it used ids again", n))
	}
	return errors.Join(errs...)
}

// Print prints the report.
func (p PowerReport) Print(w io.Writer) {
	total, names := 0, []string{}
	for name, n := range p.Processes {
		total += n
		names = append(names, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(names)
	fmt.Fprintf(w, "\n  power loss: %d processes killed at one instant (%s)\n", total, strings.Join(names, ", "))
	fmt.Fprintf(w, "  %-34s %7s\n", "back after", "s")
	fmt.Fprintf(w, "  %-34s %7.1f\n", "the local cloud's API", p.CloudS)
	groups := []string{}
	for name := range p.AvailableS {
		groups = append(groups, name)
	}
	slices.SortFunc(groups, func(a, b string) int {
		if p.AvailableS[a] < p.AvailableS[b] {
			return -1
		}
		return 1
	})
	for _, name := range groups {
		fmt.Fprintf(w, "  %-34s %7.1f\n", "group "+name+" whole, on new boots", p.AvailableS[name])
	}
	fmt.Fprintf(w, "  %-34s %7.1f\n", "writes (longest gap between two)", p.GapS)
	fmt.Fprintf(w, "\n  writes acknowledged: %d, of which before the power loss %d\n", p.Verdict.Acknowledged, p.Verdict.Earlier.Acknowledged)
	fmt.Fprintf(w, "  acknowledged but missing: %d, of which before the power loss %d\n", p.Verdict.Missing, p.Verdict.Earlier.Missing)
}

// PowerLoss cuts the power of the whole local cloud under load, starts it again, waits until all
// groups are whole and writes continue, and looks for every acknowledged write. It stops the load
// in the end.
func (r *Rig) PowerLoss(ctx context.Context, n *Narrator) (PowerReport, error) {
	var report PowerReport
	before, err := r.boots(ctx, Postgres, App)
	if err != nil {
		return report, err
	}
	was, err := r.Cloud()
	if err != nil {
		return report, err
	}
	if err := r.AwaitWrites(ctx, time.Now(), 200); err != nil {
		return report, err
	}
	known, err := r.LoadSummary(ctx, time.Time{}, time.Time{})
	if err != nil {
		return report, err
	}
	report.Before = known.Acknowledged
	n.Say("cutting the power under load: %d writes are acknowledged", report.Before)
	cut := time.Now()
	if report.Processes, err = r.CutPower(ctx); err != nil {
		return report, err
	}
	n.Say("every process is gone; starting the local cloud again")
	if err := r.PowerOn(ctx); err != nil {
		return report, err
	}
	report.CloudS = time.Since(cut).Seconds()
	now, err := r.Cloud()
	if err != nil {
		return report, err
	}
	if now.GatewayAddress != was.GatewayAddress || now.APIURL != was.APIURL {
		return report, fmt.Errorf("the local cloud came back at %s and %s, it was at %s and %s: every context is void", now.GatewayAddress, now.APIURL, was.GatewayAddress, was.APIURL)
	}
	n.Say("the cloud is back at its addresses; waiting for coordinators and groups")
	if report.AvailableS, err = r.awaitAllWhole(ctx, n, before, cut); err != nil {
		return report, err
	}
	if err := r.AwaitWrites(ctx, time.Now(), 200); err != nil {
		return report, err
	}
	n.Say("writes continue; stopping the load and reading its rows back")
	summary, err := r.LoadSummary(ctx, cut.Add(-time.Second), time.Now())
	if err != nil {
		return report, err
	}
	report.GapS, report.Errors = summary.Gap.Seconds(), summary.Errors
	if report.Verdict, err = r.StopLoad(ctx); err != nil {
		return report, err
	}
	return report, report.Check()
}

// boots are the Boots of all Slots of some groups, by Slot.
func (r *Rig) boots(ctx context.Context, groups ...string) (map[string]string, error) {
	c, err := r.Client()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range groups {
		instances, err := c.Instances(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, i := range instances {
			out[i.Slot] = i.BootID
		}
	}
	return out, nil
}

// awaitAllWhole follows both groups at once and says how many seconds after the cut each
// was whole.
func (r *Rig) awaitAllWhole(ctx context.Context, n *Narrator, before map[string]string, cut time.Time) (map[string]float64, error) {
	// Both use one connection, which is made here.
	if _, err := r.Client(); err != nil {
		return nil, err
	}
	names := []string{Postgres, App}
	var telling sync.Mutex // the narrator's, and guards the following
	after := map[string]float64{}
	errs := make([]error, len(names))
	var waiting sync.WaitGroup
	for i, name := range names {
		waiting.Go(func() {
			errs[i] = r.awaitWhole(ctx, name, before, func(v client.View) {
				telling.Lock()
				defer telling.Unlock()
				n.Rollout(v)
			})
			telling.Lock()
			defer telling.Unlock()
			after[name] = time.Since(cut).Seconds()
			if errs[i] == nil {
				n.Say("group %s is whole again", name)
			}
		})
	}
	waiting.Wait()
	return after, errors.Join(errs...)
}

// awaitWhole follows a group until all its Slots are available, each on another Boot than before:
// the coordinators' memory of the time before does not count.
func (r *Rig) awaitWhole(ctx context.Context, name string, before map[string]string, see func(client.View)) error {
	c, err := r.Client()
	if err != nil {
		return err
	}
	last := group.Status{}
	err = c.Watch(ctx, name, 1, func(v client.View) (bool, error) {
		last = v.Status
		see(v)
		return !whole(v.Status, before), nil
	}, nil)
	if err != nil {
		return fmt.Errorf("group %s is not whole after the power loss: %d of %d slots are available, %s: %w", name, last.Available, last.Replicas, last.Message, err)
	}
	return nil
}

func whole(s group.Status, before map[string]string) bool {
	for _, i := range s.Instances {
		if i.BootID == "" || i.BootID == before[i.Slot] {
			return false
		}
	}
	return s.Replicas > 0 && s.Available >= s.Replicas && len(s.Instances) >= s.Replicas
}
