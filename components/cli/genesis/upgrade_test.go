package genesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
)

// fakeCoordinators are those on a fake cloud, whose CVMs run nothing: each runs the shown compose hash,
// with a vote, unless the test says otherwise.
type fakeCoordinators struct {
	t     *testing.T
	bench *bench

	mu           sync.Mutex // guards all below
	leader, raft string
	// broken are compose hashes that do not come up.
	broken map[string]bool
	// silent are Slots that do not answer, and lost those without a vote.
	silent, lost map[string]bool
	// older are compose hashes of a version without CoordinatorsService.
	older     map[string]bool
	stepped   []string
	removed   []string
	groups    []client.Group
	groupsErr error
}

func (f *fakeCoordinators) cvm(ctx context.Context, instance string) (platform.Instance, string, error) {
	list, err := f.bench.opts.Cloud.List(ctx, "")
	if err != nil {
		return platform.Instance{}, "", err
	}
	for _, i := range list {
		if i.InstanceID == instance && i.Running() {
			return i, strings.TrimPrefix(i.Name, "demo-"), nil
		}
	}
	return platform.Instance{}, "", errors.New("connection refused")
}

// well: the coordinator of a CVM answers.
func (f *fakeCoordinators) well(i platform.Instance, slot string) bool {
	return i.Running() && !f.broken[i.ComposeHash] && !f.silent[slot]
}

func (f *fakeCoordinators) Prove(ctx context.Context, _ client.Context, instance string) (string, error) {
	i, slot, err := f.cvm(ctx, instance)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && !f.well(i, slot) {
		err = errors.New("connection refused")
	}
	return i.ComposeHash, err
}

func (f *fakeCoordinators) Facts(ctx context.Context, _ client.Context, instance string) (client.CoordinatorFacts, error) {
	i, slot, err := f.cvm(ctx, instance)
	if err != nil {
		return client.CoordinatorFacts{}, err
	}
	list, err := f.bench.opts.Cloud.List(ctx, "")
	if err != nil {
		return client.CoordinatorFacts{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	down := []string{}
	out := client.CoordinatorFacts{Slot: slot, ComposeHash: i.ComposeHash, BootID: fmt.Sprint(i.ComposeHash, i.OSImage, i.InstanceType, i.DiskGB, i.VMUUID, f.bench.fake.Env(i.Name)), Leader: f.leader, Term: 7, Sessions: 4}
	for _, other := range list {
		name := strings.TrimPrefix(other.Name, "demo-")
		well := f.well(other, name)
		if !well {
			down = append(down, name)
		}
		if well && name != slot {
			out.Connected = append(out.Connected, name)
		}
		if !f.lost[name] {
			out.Servers = append(out.Servers, client.ConsulServer{Node: name, Voter: true, Healthy: well, Leader: name == f.raft})
		}
	}
	if len(down) > 1 {
		f.t.Errorf("two coordinators are down at once: %q", down)
	}
	if f.older[i.ComposeHash] {
		out.Older, out.BootID, out.ComposeHash, out.Servers = true, "", "", nil
	}
	if slices.Contains(down, f.leader) {
		f.leader, f.raft = slot, slot // as the others elect
	}
	return out, nil
}

func (f *fakeCoordinators) StepDown(ctx context.Context, _ client.Context, instance, to string) error {
	i, slot, err := f.cvm(ctx, instance)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stepped = append(f.stepped, slot); f.older[i.ComposeHash] {
		return errors.New("unknown service cadre.api.v1.CoordinatorsService")
	}
	if f.raft == slot {
		f.raft = to
	}
	if f.leader == slot {
		f.leader = to
	}
	return nil
}

func (f *fakeCoordinators) RemoveVoter(_ context.Context, _ client.Context, _, slot string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, slot)
	f.lost[slot] = true
	return nil
}

func (f *fakeCoordinators) Groups(context.Context, client.Context) ([]client.Group, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.groups, f.groupsErr
}

// upgradable is a cluster that runs, and its coordinators.
func upgradable(t *testing.T) (*bench, *fakeCoordinators) {
	t.Helper()
	b := newBench(t)
	f := &fakeCoordinators{t: t, bench: b, leader: "coordinator-0", raft: "coordinator-0", broken: map[string]bool{}, silent: map[string]bool{}, lost: map[string]bool{}}
	if _, err := b.create(t); err == nil {
		t.Fatal("a coordinator of a fake cloud proved itself")
	}
	b.opts.Reach, b.opts.Step = f, 20*time.Second
	return b, f
}

// file changes the text of the cluster file.
func (b *bench) file(t *testing.T, old, text string) groupfile.Cluster {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(path, []byte(strings.Replace(clusterFile, old, text, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := groupfile.Load([]string{path}, groupfile.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	return file.Clusters[0]
}

const anImage = `image: c@`

func (b *bench) upgrade(ctx context.Context, t *testing.T, one groupfile.Cluster) error {
	t.Helper()
	o := b.opts
	o.Cluster = one
	up, err := PrepareUpgrade(ctx, o)
	if err != nil {
		return err
	}
	return up.Run(ctx)
}

func (b *bench) hashes(t *testing.T) (out []string) {
	t.Helper()
	list, err := b.opts.Cloud.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		out = append(out, i.ComposeHash)
	}
	return out
}

func TestUpgradeMovesFollowersAndThenTheLeader(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	old := b.hashes(t)[0]
	if err := b.upgrade(t.Context(), t, b.file(t, anImage, "image: d@")); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	hashes := b.hashes(t)
	if hashes[0] == old || hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("hashes %v, before %s", hashes, old)
	}
	if !slices.Equal(f.stepped, []string{"coordinator-0"}) {
		t.Errorf("stepped down: %q", f.stepped)
	}
	for n, name := range three {
		if env := b.fake.Env(name); env["CADRE_SLOT"] != Slot(n) || env["CADRE_PLATFORM_API_KEY"] != "key-of-cloud" {
			t.Errorf("env of %s = %v", name, env)
		}
	}
	c, err := client.LoadContext(b.opts.ContextPath)
	if err != nil || !slices.Equal(c.CoordinatorComposeHashes, []string{old, hashes[0]}) {
		t.Errorf("context lists %v, %v", c.CoordinatorComposeHashes, err)
	}
	before := len(b.fake.Calls())
	if err := b.upgrade(t.Context(), t, b.file(t, anImage, "image: d@")); err != nil {
		t.Error(err)
	}
	for _, call := range b.fake.Calls()[before:] {
		if !strings.HasSuffix(call, "/provision") && !strings.HasSuffix(call, "/status/batch") {
			t.Errorf("an upgrade to what runs changed something: %s", call)
		}
	}
	if err := b.upgrade(t.Context(), t, b.file(t, anImage+`sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"`, `image: d@sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"
    instance_type = "tdx.medium"
    disk_gb       = 40
    os_image      = "dstack-0.5.11"`)); err != nil {
		t.Fatalf("another shape: %v", err)
	}
	list, err := b.opts.Cloud.List(t.Context(), "")
	for _, i := range list {
		if !group.SameOSImage(i.OSImage, "dstack-0.5.11") || i.InstanceType != "tdx.medium" || i.DiskGB != 40 {
			t.Errorf("%s: %+v, %v", i.Name, i, err)
		}
	}
}

// TestUpgradeGivesEnvValuesAgain: no comparison shows them, so that they are given when a person asks.
func TestUpgradeGivesEnvValuesAgain(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	hashes := b.hashes(t)
	b.opts.APIKey = "another-key"
	if err := b.upgrade(t.Context(), t, b.opts.Cluster); err != nil {
		t.Fatal(err)
	}
	if env := b.fake.Env(three[0]); env["CADRE_PLATFORM_API_KEY"] != "key-of-cloud" {
		t.Errorf("without Env: %v", env)
	}
	b.opts.Env = true
	b.fake.Inject(platformtest.Fault{Method: "PATCH", Path: "/compose_file$", Mode: platformtest.ResetBefore})
	if err := b.upgrade(t.Context(), t, b.opts.Cluster); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	for n, name := range three {
		if env := b.fake.Env(name); env["CADRE_PLATFORM_API_KEY"] != "another-key" || env["CADRE_SLOT"] != Slot(n) {
			t.Errorf("env of %s = %v", name, env)
		}
	}
	if !slices.Equal(b.hashes(t), hashes) || !slices.Equal(f.stepped, []string{"coordinator-0"}) {
		t.Errorf("hashes %q, before %q; stepped down %q", b.hashes(t), hashes, f.stepped)
	}
}

// Coordinators of the version before this command are upgraded, and the way back to them is open.
func TestUpgradeOfOlderCoordinatorsAndBack(t *testing.T) {
	b, f := upgradable(t)
	old := b.hashes(t)[0]
	f.older = map[string]bool{old: true}
	if err := b.upgrade(t.Context(), t, b.file(t, anImage, "image: d@")); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	if hashes := b.hashes(t); hashes[0] == old || hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("hashes %v, before %s", hashes, old)
	}
	if err := b.upgrade(t.Context(), t, b.file(t, anImage, anImage)); err != nil {
		t.Fatalf("back: %v\n%s", err, strings.Join(b.said, "\n"))
	}
	if hashes := b.hashes(t); hashes[0] != old || hashes[1] != old || hashes[2] != old {
		t.Errorf("hashes %v, want %s", hashes, old)
	}
}

// interrupted ends an upgrade to want at the given line that it prints, and runs it again. whole reports
// that the upgrade printed fewer lines, at least least of them.
func (b *bench) interrupted(t *testing.T, want groupfile.Cluster, stop, least int) (whole bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, say := 0, b.opts.Say
	b.opts.Say = func(text string) {
		say(text)
		if said++; said == stop {
			cancel()
		}
	}
	err := b.upgrade(ctx, t, want)
	if said < stop {
		if err != nil || stop < least {
			t.Fatalf("the upgrade ended after %d lines: %v", said, err)
		}
		return true
	}
	if err := b.upgrade(t.Context(), t, want); err != nil {
		t.Fatalf("after line %d: %v\n%s", stop, err, strings.Join(b.said, "\n"))
	}
	return false
}

// TestCTL24_AnInterruptedUpgradeContinues ends the first run at each line that it prints.
func TestCTL24_AnInterruptedUpgradeContinues(t *testing.T) {
	t.Parallel()
	for stop := 1; ; stop++ {
		b, _ := upgradable(t)
		want := b.file(t, anImage, "image: d@")
		if b.interrupted(t, want, stop, 4) {
			return
		}
	}
}

// TestCTL24_ABrokenVersionLeavesTheOthersAlone: the upgrade stops at the first coordinator, and the
// file of the version before brings it back.
func TestCTL24_ABrokenVersionLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	old, bad := b.opts.Cluster, b.file(t, anImage, "image: bad@")
	before := b.hashes(t)[0]
	o := b.opts
	o.Cluster = bad
	up, err := PrepareUpgrade(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.broken[up.hash] = true
	f.mu.Unlock()
	up.o.Step = 5 * time.Second
	if err := up.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "coordinator-1 does not answer: connection refused") || !strings.Contains(err.Error(), "cadre cluster upgrade OLD.hcl") {
		t.Fatalf("upgrade to a broken version: %v", err)
	}
	if got := b.hashes(t); got[0] != before || got[1] != up.hash || got[2] != before {
		t.Errorf("hashes %v", got)
	}
	if err := b.upgrade(t.Context(), t, old); err != nil {
		t.Fatalf("the way back: %v\n%s", err, strings.Join(b.said, "\n"))
	}
	if got := b.hashes(t); got[0] != before || got[1] != before || got[2] != before {
		t.Errorf("hashes after the way back %v", got)
	}
}

func TestUpgradeSurvivesThePlatform(t *testing.T) {
	t.Parallel()
	for _, mode := range []platformtest.Mode{platformtest.ResetAfter, platformtest.ErrorAfter, platformtest.ResetBefore, platformtest.ErrorBefore, platformtest.Busy, platformtest.Throttle} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b, _ := upgradable(t)
			b.fake.Inject(platformtest.Fault{Method: "PATCH", Path: "/compose_file$", Mode: mode})
			if err := b.upgrade(t.Context(), t, b.file(t, anImage, "image: d@")); err != nil {
				t.Errorf("%v\n%s", err, strings.Join(b.said, "\n"))
			}
		})
	}
}

func TestUpgradeRefuses(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	next := b.file(t, anImage, "image: d@")
	wantErr := func(name string, one groupfile.Cluster, text string) {
		t.Helper()
		calls := len(b.fake.Calls())
		if err := b.upgrade(t.Context(), t, one); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", name, err, text)
		}
		for _, call := range b.fake.Calls()[calls:] {
			if strings.HasPrefix(call, "PATCH") {
				t.Errorf("%s: %s", name, call)
			}
		}
	}
	other := next
	other.Name = "other"
	wantErr("another cluster", other, `the file is about "other"`)
	root := next
	root.Trust.AllowSimulated = true
	wantErr("another root", root, "trust.allow_simulated")
	wantErr("a smaller disk", b.file(t, `instance_type = "tdx.small"`, "instance_type = \"tdx.small\"\n    disk_gb = 10"), "disks only grow")
	wantErr("fewer coordinators", b.file(t, `instance_type = "tdx.small"`, "instance_type = \"tdx.small\"\n    replicas = 1"), "changes no number of coordinators")

	pin := func(hashes string) client.Group {
		return client.Group{Spec: group.Spec{Name: "pg", Template: group.Template{Compose: `content: '{"coordinator_compose_hashes": [` + hashes + `]}'`}}}
	}
	f.groups = []client.Group{pin(`"` + b.hashes(t)[0] + `"`)}
	wantErr("a group that pins", next, "pg: coordinator_compose_hashes of its trust file lacks")
	f.groups, f.groupsErr = nil, errors.New("nothing answers")
	wantErr("unknown groups", next, "is unknown: nothing answers")
	f.groups, f.groupsErr = []client.Group{pin("")}, nil

	f.mu.Lock()
	f.silent["coordinator-2"] = true
	f.leader = "coordinator-1"
	f.mu.Unlock()
	// The unwell coordinator is one to change, so that it alone is changed. It never answers.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	say := b.opts.Say
	b.opts.Say = func(text string) {
		if say(text); strings.HasPrefix(text, "waiting: coordinator-2 has not booted since its change") {
			cancel()
		}
	}
	if err := b.upgrade(ctx, t, next); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("an upgrade passed a coordinator that never answers: %v", err)
	}
	b.opts.Say = say
	got := b.hashes(t)
	if got[0] != got[1] || got[0] == got[2] {
		t.Errorf("hashes %v", got)
	}
	if err := b.opts.Cloud.Delete(t.Context(), func() string {
		list, _ := b.opts.Cloud.List(t.Context(), "")
		return list[2].VMUUID
	}()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for len(b.names(t)) == 3 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	wantErr("a lost CVM", next, "coordinator-2 has no CVM")
}

func TestPinnedGroups(t *testing.T) {
	t.Parallel()
	const hash = "aabb"
	of := func(compose string, observed ...string) client.Group {
		g := client.Group{Spec: group.Spec{Name: "g", Template: group.Template{Compose: compose}}, Revision: "r2"}
		for _, r := range observed {
			g.Status.Instances = append(g.Status.Instances, group.InstanceStatus{Observed: r})
		}
		return g
	}
	for name, c := range map[string]struct {
		g    client.Group
		want string
	}{
		"no list":          {of(`{"cluster":"demo"}`), ""},
		"an empty list":    {of(`{"coordinator_compose_hashes":[]}`), ""},
		"the hash":         {of(`{"coordinator_compose_hashes":["00","aabb"]}`, "r2"), ""},
		"without it":       {of("x: '{\"coordinator_compose_hashes\" : [\n \"00\"]}'", "r2"), "lacks aabb"},
		"inside of quotes": {of(`x: "{\"coordinator_compose_hashes\":[\"00\"]}"`), "lacks aabb"},
		"not everywhere":   {of(`{"coordinator_compose_hashes":["aabb"]}{"coordinator_compose_hashes":["00"]}`), "lacks aabb"},
		"not rolled out":   {of(`{"coordinator_compose_hashes":["aabb"]}`, "r2", "r1"), "not all members"},
	} {
		if got := fmt.Sprint(pinned([]client.Group{c.g}, hash)); (got == "[]") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", name, got, c.want)
		}
	}
}

// TestApplyUpgradesOrMakesCoordinators: no coordinator of a fake cloud proves itself, so that the
// creation after the upgrade is ended there.
func TestApplyUpgradesOrMakesCoordinators(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	before := b.hashes(t)[0]
	apply := func(one groupfile.Cluster) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		o := b.opts
		o.Cluster, o.Say = one, func(text string) {
			b.opts.Say(text)
			if strings.Contains(text, "prove itself") {
				cancel()
			}
		}
		if _, err := Apply(ctx, o); err == nil || !strings.Contains(err.Error(), "last answer") {
			t.Errorf("apply: %v\n%s", err, strings.Join(b.said, "\n"))
		}
	}
	next := b.file(t, anImage, "image: d@")
	apply(next)
	if got := b.hashes(t); got[0] == before || got[0] != got[1] || got[1] != got[2] {
		t.Errorf("hashes %v, before %s", got, before)
	}
	c, err := client.LoadContext(b.opts.ContextPath)
	if err != nil {
		t.Fatal(err)
	}
	first, err := Rendering(next, c)
	other, errOther := Rendering(b.opts.Cluster, c)
	if err != nil || errOther != nil || first == other || len(first) != 64 {
		t.Errorf("renderings %q %q, %v, %v", first, other, err, errOther)
	}
	if err := b.opts.Cloud.Delete(t.Context(), b.uuids(t)[2]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(b.names(t)) == 3 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	f.mu.Lock()
	stepped := len(f.stepped)
	f.mu.Unlock()
	apply(next)
	if got := b.names(t); !slices.Equal(got, three) {
		t.Errorf("CVMs %v", got)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.stepped) != stepped {
		t.Errorf("the creation of a missing coordinator had others step down: %q", f.stepped)
	}
}
