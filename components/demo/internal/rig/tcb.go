package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// Conditions of a group about the machines of its members.
const (
	conditionStays = "MachinesStayUpToDate"
	conditionIs    = "MachinesUpToDate"
)

// lightGraceDays is tcb.grace_days of clusters/light/cluster.hcl.
const lightGraceDays = 425

// DayReport is the result of the drill of Intel's calendar, up to the update of the host.
type DayReport struct {
	// Early, Tolerated and Updated are the lines of `cadre cluster status` about the machines of the
	// members: with the early set, after the rollout of the day, after the update of the host.
	Early     []string `json:"early"`
	Tolerated []string `json:"tolerated"`
	Updated   []string `json:"updated"`
	// UsualGapS is the longest time, in a rollout before the day, in which more than one member did not
	// answer; DayGapS that from the publication until all members ran on the updated host.
	UsualGapS float64 `json:"usual_gap_s"`
	DayGapS   float64 `json:"day_gap_s"`
	// AwayS is the longest time of the day in which one member did not answer: each is restarted.
	AwayS float64 `json:"away_s"`
	// Refusals are the lines of coordinators and agents that refuse a machine by its collateral.
	Refusals []string `json:"refusals"`
	// Boots are the boots of all members since the day.
	Boots int `json:"boots"`
	// Lost are the members that are another CVM since the day.
	Lost []string `json:"lost"`
	// RolloutS is how long the rollout of the day took, with the hold in its middle.
	RolloutS float64 `json:"rollout_s"`
}

// plannedBoots are one of each member for the rollout, one for new evidence of the first, and one of each on
// the updated host.
const plannedBoots = 3 + 1 + 3

// gapSlack is the part of a gap that the interval of queries causes.
const gapSlack = time.Second

// Check reports each claim of the drill that does not hold.
func (r DayReport) Check() error {
	var errs []error
	if len(r.Lost) > 0 {
		errs = append(errs, fmt.Errorf("members lost their CVMs: %s", strings.Join(r.Lost, ", ")))
	}
	if r.Boots != plannedBoots {
		errs = append(errs, fmt.Errorf("the members booted %d times since the day, want %d", r.Boots, plannedBoots))
	}
	if len(r.Refusals) > 0 {
		errs = append(errs, fmt.Errorf("%d admissions were refused, the first one: %s", len(r.Refusals), r.Refusals[0]))
	}
	if r.AwayS == 0 {
		errs = append(errs, errors.New("no member was seen away, though each was restarted: nothing was measured"))
	}
	if r.DayGapS > r.UsualGapS+gapSlack.Seconds() {
		errs = append(errs, fmt.Errorf("more than one member did not answer for %.1f s, usual are %.1f s", r.DayGapS, r.UsualGapS))
	}
	return errors.Join(errs...)
}

// Print shows the report to people.
func (r DayReport) Print(w io.Writer) {
	fmt.Fprintf(w, "\n  new evaluation in the middle of a rollout: complete after %.1f s, %d refusals, %d members lost\n", r.RolloutS, len(r.Refusals), len(r.Lost))
	fmt.Fprintf(w, "  longest time with more than one member away: %.1f s, in a usual rollout %.1f s; with one away: %.1f s\n", r.DayGapS, r.UsualGapS, r.AwayS)
	for _, one := range []struct {
		when  string
		lines []string
	}{{"the early set", r.Early}, {"the day, after the rollout", r.Tolerated}, {"after the update of the host", r.Updated}} {
		fmt.Fprintf(w, "\n  cadre cluster status, %s\n", one.when)
		if len(one.lines) == 0 {
			fmt.Fprintln(w, "    no line about a machine")
		}
		for _, line := range one.lines {
			fmt.Fprintln(w, "    "+line)
		}
	}
}

func lightSlots() (out []string) {
	for n := range 3 {
		out = append(out, group.SlotName(Light, n))
	}
	return out
}

// Collateral sets the simulated manufacturer's verdicts on its machines: a JSON object in the form
// of PUT /_local/collateral.
func (r *Rig) Collateral(ctx context.Context, posture string) error {
	if err := r.hostBody(ctx, http.MethodPut, "/collateral", []byte(posture), &struct{}{}); err != nil {
		return fmt.Errorf("set the collateral: %w", err)
	}
	return nil
}

// UpdateHost gives the host of the local cloud its newer firmware, or takes it away: CVMs show it from their
// next boot on.
func (r *Rig) UpdateHost(ctx context.Context, updated bool) error {
	if err := r.hostBody(ctx, http.MethodPatch, "/settings", fmt.Appendf(nil, `{"host_updated":%t}`, updated), &struct{}{}); err != nil {
		return fmt.Errorf("update the host: %w", err)
	}
	return nil
}

// evaluation is the number of the newest evaluation that the coordinators accepted.
func (r *Rig) evaluation(ctx context.Context) (uint32, error) {
	text, err := r.CadreJSON(ctx, "admission", "tcb", "list")
	if err != nil {
		return 0, err
	}
	var kept policy.TCBOverview
	if err := json.Unmarshal(text, &kept); err != nil {
		return 0, fmt.Errorf("read what is kept of collateral: %w", err)
	}
	var newest uint32
	for _, mark := range kept.Collateral {
		newest = max(newest, mark.TCBEvaluation)
	}
	if newest == 0 {
		return 0, errors.New("the coordinators accepted no collateral yet")
	}
	return newest, nil
}

// RestartCoordinators ends the process of one coordinator after the other and waits until each
// answers again. A starting coordinator asks for collateral at once; a running one asks every six
// hours.
func (r *Rig) RestartCoordinators(ctx context.Context) error {
	for n := range Coordinators {
		name := group.SlotName("coordinator", n)
		pid, err := r.coordinatorPID(name)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("end the process of %s: %w", name, err)
		}
		err = again(ctx, func(ctx context.Context) error {
			if now, err := r.coordinatorPID(name); err != nil || now == pid {
				return errors.Join(fmt.Errorf("%s did not start again", name), err)
			}
			return r.answersItself(ctx, name)
		})
		if err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
	}
	return nil
}

// answersItself asks one coordinator, which must know a leader.
func (r *Rig) answersItself(ctx context.Context, coordinator string) error {
	c, err := r.ClientOf(ctx, coordinator)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	info, err := c.Cluster(ctx)
	if err == nil && (info.GetSelf() != coordinator || info.GetLeader() == "") {
		err = fmt.Errorf("%q answers and knows the leader %q", info.GetSelf(), info.GetLeader())
	}
	return err
}

// FirmwareDay goes through the days of a new evaluation with the light group. The early set warns;
// the simulated root publishes the evaluation in the middle of a rollout, which continues; the host
// is updated within the grace. apply writes the group's spec with a new release.
func (r *Rig) FirmwareDay(ctx context.Context, n *Narrator, apply func(context.Context) error) (report DayReport, err error) {
	now, err := r.evaluation(ctx)
	if err != nil {
		return report, err
	}
	if err := r.UpdateHost(ctx, false); err != nil {
		return report, err
	}
	refused, err := r.refusals(ctx)
	if err != nil {
		return report, err
	}
	// Intel's standard set asks for a level a year after its date: that is in an hour.
	replaced := time.Now().Add(time.Hour - policy.StandardAfterDays*24*time.Hour).UTC().Truncate(time.Second)
	newer := fmt.Sprintf(`{"evaluation":%d,"replaced":%q,"advisories":["INTEL-SA-01397"]}`, now+1, replaced.Format(time.RFC3339))

	n.Say("Intel's early set has evaluation %d, the standard set %d; restarting the coordinators, so that they ask at once", now+1, now)
	if err := r.Collateral(ctx, fmt.Sprintf(`{"evaluation":%d,"early":%s}`, now, newer)); err != nil {
		return report, err
	}
	if err := r.RestartCoordinators(ctx); err != nil {
		return report, err
	}
	n.Say("rolling %s: each member shows its machine", Light)
	asked := r.askMembers(ctx)
	err = r.rollLight(ctx, n, apply)
	_, report.UsualGapS = asked()
	if err != nil {
		return report, err
	}
	falls := replaced.Add(policy.StandardAfterDays * 24 * time.Hour)
	day := firmwareDay{newer: newer, falls: fmt.Sprintf("will be out of date on about %s: ", falls.Format(time.DateOnly))}
	ends := replaced.Add(lightGraceDays * 24 * time.Hour)
	day.ends = fmt.Sprintf("ends in %d days: the machine is OutOfDate, its level is not the newest since %s, tolerated until %s",
		int(time.Until(ends)/(24*time.Hour)), replaced.Format(time.DateOnly), ends.Format(time.DateOnly))
	if report.Early, err = r.awaitMachines(ctx, machineLines(day.falls, lightSlots()...)); err != nil {
		return report, err
	}
	n.Say("warned: %s", report.Early[0])

	was, err := r.CVMs(ctx)
	if err != nil {
		return report, err
	}
	asked = r.askMembers(ctx)
	err = r.firmwareDay(ctx, n, apply, day, &report)
	report.AwayS, report.DayGapS = asked()
	if err != nil {
		return report, err
	}
	is, err := r.CVMs(ctx)
	if err != nil {
		return report, err
	}
	for _, slot := range lightSlots() {
		before, after := was[r.PlatformName(slot)], is[r.PlatformName(slot)]
		report.Boots += after.Boots - before.Boots
		if before.InstanceID != after.InstanceID || before.VMUUID != after.VMUUID {
			report.Lost = append(report.Lost, slot)
		}
	}
	all, err := r.refusals(ctx)
	if err != nil {
		return report, err
	}
	report.Refusals = slices.DeleteFunc(all, func(line string) bool { return slices.Contains(refused, line) })
	return report, report.Check()
}

// firmwareDay is the part of the drill on the day itself.
type firmwareDay struct {
	// newer is the posture of the manufacturer from that day on.
	newer string
	// falls and ends begin a member's line before the day, and once its machine was judged on it.
	falls, ends string
}

// firmwareDay goes through the day, and through the update of the host.
func (r *Rig) firmwareDay(ctx context.Context, n *Narrator, apply func(context.Context) error, day firmwareDay, report *DayReport) error {
	began := time.Now()
	if err := apply(ctx); err != nil {
		return err
	}
	// On every path the waiting CVM gets its images.
	free := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, err := r.SlowRegistry(ctx, false)
		return err
	}
	first, second, err := r.awaitMiddle(ctx)
	if err == nil {
		n.Say("%s runs the new revision, %s boots: the standard set is replaced now; restarting the coordinators", first, second)
		err = r.Collateral(ctx, day.newer)
	}
	if err == nil {
		err = r.RestartCoordinators(ctx)
	}
	if err := errors.Join(err, free()); err != nil {
		return err
	}
	v, err := r.Follow(ctx, Light, n.Rollout)
	if err != nil || v.Status.RolloutState != string(operation.Complete) {
		return errors.Join(fmt.Errorf("the rollout of the day is %s: %s", v.Status.RolloutState, v.Status.Message), err)
	}
	report.RolloutS = time.Since(began).Seconds()

	// The first member's evidence is from before the day, and counts for 24 hours.
	rest := slices.DeleteFunc(lightSlots(), func(slot string) bool { return slot == first })
	want := machineLines(day.ends, rest...)
	want[first] = day.falls
	if _, err := r.awaitMachines(ctx, want); err != nil {
		return err
	}
	n.Say("complete; restarting %s, whose evidence is of before the day", first)
	if err := r.restartMember(ctx, first, "to show new evidence"); err != nil {
		return err
	}
	if report.Tolerated, err = r.awaitMachines(ctx, machineLines(day.ends, lightSlots()...)); err != nil {
		return err
	}
	n.Say("every member is tolerated: %s", report.Tolerated[0])

	n.Say("the host gets its firmware; restarting the members on it, one after the other")
	if err := r.UpdateHost(ctx, true); err != nil {
		return err
	}
	for i, slot := range lightSlots() {
		if err := r.restartMember(ctx, slot, "its host got new firmware"); err != nil {
			return err
		}
		if report.Updated, err = r.awaitMachines(ctx, machineLines(day.ends, lightSlots()[i+1:]...)); err != nil {
			return err
		}
		n.Say("%s has no warning any more, %d members have one", slot, len(report.Updated))
	}
	return nil
}

// restartMember requests a restart of one member at its present revision and waits for it.
func (r *Rig) restartMember(ctx context.Context, slot, reason string) error {
	_, err := r.Cadre(ctx, "instance", "restart", slot, "--reason", reason, "--wait")
	return err
}

// awaitMiddle waits until one member was admitted at the new revision, and holds the next one while
// it boots: its images do not come until SlowRegistry lets them.
func (r *Rig) awaitMiddle(ctx context.Context) (first, second string, err error) {
	c, err := r.Client()
	if err != nil {
		return "", "", err
	}
	spec, err := c.Group(ctx, Light)
	if err != nil {
		return "", "", err
	}
	err = c.Watch(ctx, Light, spec.Index, func(v client.View) (bool, error) {
		if v.Status.ObservedIndex < spec.Index {
			return true, nil
		}
		at := slices.IndexFunc(v.Status.Instances, func(i group.InstanceStatus) bool { return i.Observed == v.Status.Target })
		if at < 0 {
			return true, nil
		}
		first = v.Status.Instances[at].Slot
		return false, nil
	}, nil)
	if err != nil {
		return "", "", fmt.Errorf("wait for the first member at the new revision: %w", err)
	}
	err = again(ctx, func(ctx context.Context) error {
		waiting, err := r.SlowRegistry(ctx, true)
		if err != nil || len(waiting) == 0 {
			return errors.Join(errors.New("no second member boots"), err)
		}
		second = strings.TrimPrefix(waiting[0], r.PlatformName(""))
		return nil
	})
	if err == nil && first == second {
		err = fmt.Errorf("%s boots again: the rollout is not in its middle", first)
	}
	return first, second, err
}

// machineLines are the beginnings of the lines about the machines of these members, by Slot.
func machineLines(begins string, slots ...string) map[string]string {
	want := map[string]string{}
	for _, slot := range slots {
		want[slot] = begins
	}
	return want
}

// awaitMachines waits until `cadre cluster status` has these lines about machines of the light group and no
// other, and until the group's conditions agree. It returns the lines, by Slot.
func (r *Rig) awaitMachines(ctx context.Context, want map[string]string) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var differs error
	err = again(ctx, func(ctx context.Context) error {
		text, err := r.Cadre(ctx, "cluster", "status")
		if err != nil {
			return err
		}
		c, err := r.Client()
		if err != nil {
			return err
		}
		g, err := c.Group(ctx, Light)
		if err != nil {
			return err
		}
		lines = linesOfMachines(text)
		differs = errors.Join(wantMachines(lines, want), wantConditions(g.Status.Conditions, want))
		return differs
	})
	if err != nil {
		return lines, errors.Join(fmt.Errorf("wait for the status of machines: %w", err), differs)
	}
	return lines, nil
}

// linesOfMachines are the lines of `cadre cluster status` about the light group's machines, by Slot.
func linesOfMachines(status string) (lines []string) {
	for line := range strings.Lines(status) {
		slot, _, _ := strings.Cut(line, ":")
		if slices.Contains(lightSlots(), slot) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

func wantMachines(lines []string, want map[string]string) error {
	if len(lines) != len(want) {
		return fmt.Errorf("%d lines about machines, want %v: %q", len(lines), want, lines)
	}
	for _, line := range lines {
		slot, rest, _ := strings.Cut(line, ": ")
		if begins, found := want[slot]; !found || !strings.HasPrefix(rest, begins) {
			return fmt.Errorf("%q, want %s: %s", line, slot, begins)
		}
	}
	return nil
}

// wantConditions checks that the conditions name the members of these lines and no other; a condition is
// not there where it would name none.
func wantConditions(have []group.Condition, want map[string]string) error {
	said := map[string]string{}
	for _, one := range have {
		said[one.Type] = one.Message
	}
	var errs []error
	for _, slot := range lightSlots() {
		line := want[slot]
		for condition, named := range map[string]bool{conditionIs: strings.HasPrefix(line, "ends "), conditionStays: strings.HasPrefix(line, "will ")} {
			if strings.Contains(said[condition], slot+": ") != named {
				errs = append(errs, fmt.Errorf("the condition %s says %q; that it names %s should be %t", condition, said[condition], slot, named))
			}
		}
	}
	return errors.Join(errs...)
}

// refusals are the lines in which coordinators refuse a machine, and agents a coordinator, by collateral.
func (r *Rig) refusals(ctx context.Context) (all []string, err error) {
	read := func(slot, service string, texts ...string) {
		for _, code := range []policy.Code{policy.CodeTCBOutOfDate, policy.CodeTCBAdvisoryBlocked, policy.CodeCollateralRollback} {
			lines, problem := r.Lines(ctx, r.PlatformName(slot), service, append(texts, string(code))...)
			all, err = append(all, lines...), errors.Join(err, problem)
		}
	}
	for n := range Coordinators {
		read(group.SlotName("coordinator", n), coordinatorService, "refused")
	}
	for _, slot := range lightSlots() {
		read(slot, "cadre")
	}
	return all, err
}
