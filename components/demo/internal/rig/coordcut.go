package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// CutReport is the result of the drill that cuts the power of two coordinators, written to
// .out/drill-coordinators.json. Times are seconds since the cut.
type CutReport struct {
	// Cut are the coordinators that lost power; the leader is one of them.
	Cut []string `json:"cut"`
	// WholeS is when every coordinator answered and knew a leader.
	WholeS float64 `json:"whole_s"`
	// Rebooted are the members of the light group that booted since the cut.
	Rebooted []string `json:"rebooted"`
}

// Check reports each claim of the drill that does not hold.
func (r CutReport) Check() error {
	var errs []error
	if r.WholeS == 0 {
		errs = append(errs, errors.New("the coordinators did not come back"))
	}
	if len(r.Rebooted) > 0 {
		errs = append(errs, fmt.Errorf("members booted because coordinators were away: %q", r.Rebooted))
	}
	return errors.Join(errs...)
}

// Print shows the report to people.
func (r CutReport) Print(w io.Writer) {
	fmt.Fprintf(w, "\n  power cut of %d of %d coordinators, the leader among them: all back after %.1f s, %d members booted\n",
		len(r.Cut), Coordinators, r.WholeS, len(r.Rebooted))
}

// CutCoordinators cuts the power of the leader and of one more coordinator, and waits until the third one
// has started both again.
func (r *Rig) CutCoordinators(ctx context.Context, n *Narrator) (report CutReport, err error) {
	c, err := r.Client()
	if err != nil {
		return report, err
	}
	info, err := c.Cluster(ctx)
	if err != nil {
		return report, err
	}
	before, err := r.boots(ctx, Light)
	if err != nil {
		return report, err
	}
	report.Cut = []string{info.GetLeader()}
	for i := range Coordinators {
		if name := fmt.Sprintf("coordinator-%d", i); len(report.Cut) < 2 && name != info.GetLeader() {
			report.Cut = append(report.Cut, name)
		}
	}
	n.Say("cutting the power of %s and %s", report.Cut[0], report.Cut[1])
	from := time.Now()
	for _, name := range report.Cut {
		if err := r.Kill(ctx, r.PlatformName(name)); err != nil {
			return report, err
		}
	}
	r.hangUp()
	for i := range Coordinators {
		name := fmt.Sprintf("coordinator-%d", i)
		if err := again(ctx, func(ctx context.Context) error { return r.answersItself(ctx, name) }); err != nil {
			return report, fmt.Errorf("%s does not answer again: %w", name, err)
		}
		n.Say("%s answers and knows a leader", name)
	}
	report.WholeS = time.Since(from).Seconds()
	n.Say("all coordinators answer")
	after, err := r.boots(ctx, Light)
	if err != nil {
		return report, err
	}
	for slot, boot := range before {
		if after[slot] != boot {
			report.Rebooted = append(report.Rebooted, slot)
		}
	}
	return report, report.Check()
}
