package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/demo/load"
)

// UpgradeReport is the result of the drill that upgrades all coordinators under load, written to
// .out/drill-upgrade.json.
type UpgradeReport struct {
	// UpgradeS is how long the upgrade took, with the death of its command in the middle; GapS has the
	// longest time between two acknowledged writes meanwhile, by the way of writing, and Failed the
	// failed writes of all.
	UpgradeS float64              `json:"upgrade_s"`
	GapS     map[load.Way]float64 `json:"gap_s"`
	Failed   int                  `json:"failed_writes"`
	// Changed are the coordinators in the order of their changes.
	Changed []string `json:"changed"`
	// Stopped is the end of the output of the upgrade to a version that does not start, and BackS how long
	// the way back took. BrokenGapS has the longest gaps of both.
	Stopped    string               `json:"stopped"`
	BackS      float64              `json:"way_back_s"`
	BrokenGapS map[load.Way]float64 `json:"broken_gap_s"`
	// Replaced is the coordinator whose CVM and disk were lost and made again, ReplaceS how long that
	// took, and ReplaceGapS the longest gaps since the loss.
	Replaced    string               `json:"replaced"`
	ReplaceS    float64              `json:"replace_s"`
	ReplaceGapS map[load.Way]float64 `json:"replace_gap_s"`
	// Rebooted are members that booted meanwhile.
	Rebooted []string     `json:"rebooted"`
	Verdict  load.Verdict `json:"verdict"`
}

// maxUpgradeGap is the promise about writes.
const maxUpgradeGap = 1.0

// Check reports each claim of the drill that does not hold.
func (r UpgradeReport) Check() error {
	var errs []error
	for _, gaps := range []map[load.Way]float64{r.GapS, r.BrokenGapS, r.ReplaceGapS} {
		for way, gap := range gaps {
			if gap > maxUpgradeGap {
				errs = append(errs, fmt.Errorf("writes by way of %q paused for %.2f s, at most %.0f s are promised", way, gap, maxUpgradeGap))
			}
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(r.Changed)))) != Coordinators || len(r.Changed) != Coordinators {
		errs = append(errs, fmt.Errorf("not each coordinator changed once: %q", r.Changed))
	}
	if !strings.Contains(r.Stopped, "cadre cluster upgrade OLD.hcl") {
		errs = append(errs, fmt.Errorf("the upgrade to a broken version named no way back: %s", r.Stopped))
	}
	if len(r.Rebooted) > 0 {
		errs = append(errs, fmt.Errorf("members booted because coordinators were upgraded: %q", r.Rebooted))
	}
	if r.Verdict.Missing > 0 {
		errs = append(errs, fmt.Errorf("%d of %d acknowledged writes are missing", r.Verdict.Missing, r.Verdict.Acknowledged))
	}
	return errors.Join(errs...)
}

// Print shows the report to people.
func (r UpgradeReport) Print(w io.Writer) {
	fmt.Fprintf(w, "\n  upgrade of %d coordinators (%s), its command killed once: %.1f s\n", len(r.Changed), strings.Join(r.Changed, ", "), r.UpgradeS)
	fmt.Fprintf(w, "  longest gap between two acknowledged writes: %s; %d writes failed\n", gapText(r.GapS), r.Failed)
	fmt.Fprintf(w, "  a version that does not start: stopped at the first coordinator, way back after %.1f s; longest gap: %s\n", r.BackS, gapText(r.BrokenGapS))
	fmt.Fprintf(w, "  %s lost with its disk: made again after %.1f s; longest gap: %s\n", r.Replaced, r.ReplaceS, gapText(r.ReplaceGapS))
	fmt.Fprintf(w, "  writes acknowledged: %d, missing: %d; %d members booted\n", r.Verdict.Acknowledged, r.Verdict.Missing, len(r.Rebooted))
}

func gapText(gaps map[load.Way]float64) string {
	var out []string
	for _, way := range slices.Sorted(maps.Keys(gaps)) {
		out = append(out, fmt.Sprintf("%s %.2f s", way, gaps[way]))
	}
	return strings.Join(out, ", ")
}

// gaps waits until writes continue, and returns the longest gap of each way since from, and the failed
// writes of all.
func (r *Rig) gaps(ctx context.Context, from time.Time) (gaps map[load.Way]float64, failed int, err error) {
	if err := r.AwaitWrites(ctx, from.Add(after), 200); err != nil {
		return nil, 0, err
	}
	all, err := r.waySummaries(ctx, from, time.Now())
	gaps = map[load.Way]float64{}
	for way, s := range all {
		gaps[way] = s.Gap.Seconds()
		failed += s.Failed
	}
	return gaps, failed, err
}

// sayChanging begins the line of a change.
const sayChanging = "changing coordinator-"

// sayHash begins the line of a plan that has the compose hash of the file.
const sayHash = "the file gives compose hash "

// UpgradeCoordinators upgrades the coordinators of the deployed database under load. It kills the
// command once in the middle, and it tries a version that does not start, and goes back.
func (r *Rig) UpgradeCoordinators(ctx context.Context, n *Narrator) (report UpgradeReport, err error) {
	boots, err := r.boots(ctx, Postgres, App)
	if err != nil {
		return report, err
	}
	next, err := r.clusterFile("next", "services:\n", "# the next version\nservices:\n")
	if err != nil {
		return report, err
	}
	broken, err := r.clusterFile("broken", "- --replicas=3\n", "- --replicas=3\n      - --of-another-version\n")
	if err != nil {
		return report, err
	}
	from := time.Now()
	n.Say("upgrading all coordinators, and killing the command while the first one boots")
	lines, err := r.upgrade(ctx, next, true)
	if err == nil {
		return report, errors.New("the killed command ended in order")
	}
	report.Changed = changedIn(lines)
	n.Say("running the command again")
	if lines, err = r.upgrade(ctx, next, false); err != nil {
		return report, fmt.Errorf("upgrade: %w: %s", err, tail(strings.Join(lines, "\n"), 2000))
	}
	report.Changed = append(report.Changed, changedIn(lines)...)
	report.UpgradeS = time.Since(from).Seconds()
	if report.GapS, report.Failed, err = r.gaps(ctx, from); err != nil {
		return report, err
	}
	n.Say("upgraded after %.1f s; longest gap: %s", report.UpgradeS, gapText(report.GapS))

	from = time.Now()
	n.Say("upgrading to a version that does not start")
	if lines, err = r.upgrade(ctx, broken, false, "--deadline", "60s"); err == nil {
		return report, errors.New("the upgrade to a version that does not start succeeded")
	}
	report.Stopped = tail(strings.Join(lines, "\n"), 1500)
	n.Say("it stopped; going back")
	back := time.Now()
	if lines, err = r.upgrade(ctx, next, false); err != nil {
		return report, fmt.Errorf("the way back: %w: %s", err, tail(strings.Join(lines, "\n"), 2000))
	}
	report.BackS = time.Since(back).Seconds()
	if report.BrokenGapS, _, err = r.gaps(ctx, from); err != nil {
		return report, err
	}
	if err := r.replaceCoordinator(ctx, n, next, &report); err != nil {
		return report, err
	}
	after, err := r.boots(ctx, Postgres, App)
	if err != nil {
		return report, err
	}
	for slot, boot := range boots {
		if after[slot] != boot {
			report.Rebooted = append(report.Rebooted, slot)
		}
	}
	if report.Verdict, err = r.StopLoad(ctx); err != nil {
		return report, err
	}
	return report, report.Check()
}

// clusterFile writes the cluster file of the demo with another compose text, and returns its path.
func (r *Rig) clusterFile(name, old, text string) (string, error) {
	file, err := os.ReadFile(filepath.Join(r.Root, "clusters/postgres/cluster.hcl"))
	if err != nil {
		return "", err
	}
	const template, end = `templatefile("../../compose/coordinator.yaml", {`, "cadre.trust_json\n    })"
	if strings.Count(string(file), template) != 1 || strings.Count(string(file), end) != 1 {
		return "", errors.New("clusters/postgres/cluster.hcl renders the coordinators in another way than this drill expects")
	}
	changed := strings.NewReplacer(
		template, fmt.Sprintf("replace(templatefile(%q, {", filepath.Join(r.Root, "compose/coordinator.yaml")),
		end, fmt.Sprintf("cadre.trust_json\n    }), %q, %q)", old, text),
	).Replace(string(file))
	path := filepath.Join(r.State, "cluster-"+name+".hcl")
	return path, writeText(path, changed)
}

// replaceCoordinator destroys the CVM of the last coordinator with its disk, and makes it again.
func (r *Rig) replaceCoordinator(ctx context.Context, n *Narrator, file string, report *UpgradeReport) error {
	report.Replaced = fmt.Sprintf("coordinator-%d", Coordinators-1)
	cvms, err := r.CVMs(ctx)
	if err != nil {
		return err
	}
	from := time.Now()
	n.Say("losing %s with its disk, and replacing it", report.Replaced)
	if err := r.LoseCVM(ctx, cvms[r.PlatformName(report.Replaced)].VMUUID); err != nil {
		return err
	}
	// The command refuses while the other coordinators elect a leader of Raft.
	bounded, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		lines, err := r.change(bounded, false, "replace", report.Replaced, file, "--confirm", report.Replaced)
		if err == nil {
			break
		}
		select {
		case <-bounded.Done():
			return fmt.Errorf("replace: %w: %s", err, tail(strings.Join(lines, "\n"), 2000))
		case <-time.After(2 * time.Second):
		}
	}
	report.ReplaceS = time.Since(from).Seconds()
	r.hangUp()
	report.ReplaceGapS, _, err = r.gaps(ctx, from)
	return err
}

// upgrade runs the command and returns its lines. With kill it dies while the first CVM boots, as by
// kill -9.
func (r *Rig) upgrade(ctx context.Context, file string, kill bool, flags ...string) (lines []string, err error) {
	c, err := client.LoadContext(r.ContextFile())
	if err != nil {
		return nil, err
	}
	if r.Platform == group.PlatformVMM {
		// No webhook decides about the keys of this cloud.
		plan, err := r.change(ctx, false, "upgrade", file, "--plan")
		if err != nil {
			return plan, err
		}
		for _, line := range plan {
			if hash, ok := strings.CutPrefix(line, sayHash); ok {
				flags = append(flags, "--kms-allows", hash)
			}
		}
	}
	return r.change(ctx, kill, append([]string{"upgrade", file, "--confirm", c.Cluster}, flags...)...)
}

// change runs a command that changes coordinators.
func (r *Rig) change(ctx context.Context, kill bool, command ...string) (lines []string, err error) {
	vars, err := r.ImageVars("coordinator")
	if err != nil {
		return nil, err
	}
	args := append([]string{"cluster", "--context", r.ContextFile()}, command...)
	cmd := r.cadre(ctx, append(append(args, "--var", "cloud="+r.CloudFile()), vars...)...)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(io.TeeReader(out, r.Log))
		for scanner.Scan() {
			lines = append(lines, scanner.Text())
			// The line after that of a change is written after the call.
			if kill && len(changedIn(lines)) > 0 && !strings.Contains(scanner.Text(), sayChanging) {
				_ = cmd.Process.Kill()
			}
		}
	}()
	err = cmd.Wait()
	_ = in.Close()
	<-read
	return lines, err
}

// changedIn lists the coordinators that lines say were changed.
func changedIn(lines []string) (slots []string) {
	for _, line := range lines {
		if _, after, ok := strings.Cut(line, sayChanging); ok {
			number, _, _ := strings.Cut(after, ":")
			slots = append(slots, "coordinator-"+number)
		}
	}
	return slots
}
