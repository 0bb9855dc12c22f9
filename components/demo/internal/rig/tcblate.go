package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

// LateReport is the drill's result for a host that was not updated in time.
type LateReport struct {
	// Refused is the reason of the refusal of the member on that host, Next the ways out of `cadre
	// admission explain`.
	Refused string   `json:"refused"`
	Next    []string `json:"next"`
	// Available are the members that were so while one was refused.
	Available int `json:"available"`
	// BackS is when the group was whole again after the update of the host, in seconds.
	BackS float64 `json:"back_s"`
}

// Check reports each claim of the drill that does not hold.
func (r LateReport) Check() error {
	var errs []error
	for _, want := range []string{string(policy.CodeTCBOutOfDate), fmt.Sprintf("its grace of %d days ended on ", lightGraceDays)} {
		if !strings.Contains(r.Refused, want) {
			errs = append(errs, fmt.Errorf("the refusal does not say %q: %s", want, r.Refused))
		}
	}
	if next := strings.Join(r.Next, " "); !strings.Contains(next, "tcb.grace_days") {
		errs = append(errs, fmt.Errorf("cadre admission explain names no way out: %q", next))
	}
	if r.Available != 2 {
		errs = append(errs, fmt.Errorf("%d members were available while one was refused, want 2", r.Available))
	}
	return errors.Join(errs...)
}

// Print shows the report to people.
func (r LateReport) Print(w io.Writer) {
	fmt.Fprintf(w, "\n  after the grace: a member on an old host is refused, %d members are available; whole %.1f s after the update of the host\n", r.Available, r.BackS)
	fmt.Fprintf(w, "    %s\n", r.Refused)
	for _, next := range r.Next {
		fmt.Fprintf(w, "    next: %s\n", next)
	}
}

// FirmwareLate shows the light group after the grace, with all hosts updated except one: a member
// that starts there is refused, the others run, and the update of that host brings it back.
func (r *Rig) FirmwareLate(ctx context.Context, n *Narrator) (report LateReport, err error) {
	now, err := r.evaluation(ctx)
	if err != nil {
		return report, err
	}
	if err := r.UpdateHost(ctx, true); err != nil {
		return report, err
	}
	replaced := time.Now().Add(-(lightGraceDays + 1) * 24 * time.Hour).UTC().Truncate(time.Second)
	n.Say("evaluation %d asks for a level whose grace ended yesterday; restarting the coordinators on the updated host", now+1)
	if err := r.Collateral(ctx, fmt.Sprintf(`{"evaluation":%d,"replaced":%q,"advisories":["INTEL-SA-01397"]}`, now+1, replaced.Format(time.RFC3339))); err != nil {
		return report, err
	}
	// Agents would not believe coordinators of an old machine, and so ask none for admission.
	for i := range Coordinators {
		if err := r.bootCoordinator(ctx, group.SlotName("coordinator", i)); err != nil {
			return report, err
		}
	}
	c, err := r.Client()
	if err != nil {
		return report, err
	}
	slot := lightSlots()[2]
	n.Say("%s starts on a host that was not updated", slot)
	if err := r.UpdateHost(ctx, false); err != nil {
		return report, err
	}
	if _, err := c.Restart(ctx, slot, "its host is an old one"); err != nil {
		return report, err
	}
	if report, err = r.awaitRefusal(ctx, slot); err != nil {
		return report, err
	}
	n.Say("refused: %s", report.Refused)
	began := time.Now()
	n.Say("the host is updated, and starts its CVM again")
	if err := r.UpdateHost(ctx, true); err != nil {
		return report, err
	}
	cvm := r.PlatformName(slot)
	if err := errors.Join(r.Kill(ctx, cvm), r.Start(ctx, cvm)); err != nil {
		return report, err
	}
	err = again(ctx, func(ctx context.Context) error {
		c, err := r.Client()
		if err != nil {
			return err
		}
		g, err := c.Group(ctx, Light)
		if err == nil && g.Status.Available < g.Status.Replicas {
			err = fmt.Errorf("%d of %d slots are available: %s", g.Status.Available, g.Status.Replicas, g.Status.Message)
		}
		return err
	})
	if err != nil {
		return report, fmt.Errorf("wait for %s on the updated host: %w", slot, err)
	}
	report.BackS = time.Since(began).Seconds()
	return report, report.Check()
}

// bootCoordinator boots a coordinator's CVM as a host that was off does, and waits until it answers.
func (r *Rig) bootCoordinator(ctx context.Context, name string) error {
	cvm := r.PlatformName(name)
	before, err := r.CVMs(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Kill(ctx, cvm), r.Start(ctx, cvm)); err != nil {
		return err
	}
	return again(ctx, func(ctx context.Context) error {
		now, err := r.CVMs(ctx)
		if err != nil {
			return err
		}
		if now[cvm].Boots == before[cvm].Boots {
			return fmt.Errorf("%s did not boot yet", cvm)
		}
		return r.answersItself(ctx, name)
	})
}

// awaitRefusal waits until a member's boot is refused, and records the refusal.
func (r *Rig) awaitRefusal(ctx context.Context, slot string) (report LateReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var last error
	err = again(ctx, func(ctx context.Context) error {
		report, last = r.refusalOf(ctx, slot)
		return last
	})
	return report, errors.Join(err, last)
}

func (r *Rig) refusalOf(ctx context.Context, slot string) (report LateReport, err error) {
	c, err := r.Client()
	if err != nil {
		return report, err
	}
	g, err := c.Group(ctx, Light)
	if err != nil {
		return report, err
	}
	described, err := c.Instance(ctx, slot)
	if err != nil {
		return report, err
	}
	if described.Status.LastRefusal == "" {
		return report, fmt.Errorf("no boot of %s is refused: it is %s", slot, described.Status.State)
	}
	report.Refused, report.Available = described.Status.LastRefusal, g.Status.Available
	text, err := r.CadreJSON(ctx, "admission", "explain", slot)
	if err != nil {
		return report, err
	}
	var explained policy.Explanation
	if err := json.Unmarshal(text, &explained); err != nil {
		return report, fmt.Errorf("read the explanation: %w", err)
	}
	report.Next = explained.Next
	return report, nil
}
