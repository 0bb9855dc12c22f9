package platformtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cadre.dev/platform"
)

// Target is one cloud under test, reached through a driver. Names of CVMs that
// the suite makes start with "contract-"; it deletes them.
type Target struct {
	Platform platform.Platform
	// Template gives a template whose content differs by revision, and whose
	// app-compose.json allows these env names. Its AppID and AppNonce may be set.
	Template func(revision int, envs ...string) platform.Template
	// Settle bounds how long one task (create, update, ...) takes.
	Settle time.Duration
	// Inject arms a fault; nil: the cases that need faults are skipped, with the reason printed.
	Inject func(Fault)
	// Route is where the driver makes a call, as Method and Path of a Fault; both empty: it makes no
	// such call, and faults at it are skipped. nil: as driver phala.
	Route func(c Call, vmUUID string) (method, path string)
	// Modes are the faults that the cloud can have; nil: all.
	Modes []Mode
	// NextAppID, where the cloud has it; nil skips its case.
	NextAppID func(ctx context.Context) (appID, nonce string, err error)
	// Hide makes accepted changes of image and shape show only that much later, 0 again at
	// once; nil skips its case.
	Hide func(time.Duration)
	// Unified: the cloud changes image and shape with one call. A target without it takes the
	// older calls, and the image stays where both are asked for.
	Unified bool
	// Lose makes one of several nodes give no answer until back is called; nil skips its case.
	Lose func(node string) (back func())
	// Unreachable is the same driver pointed at nothing; nil skips its case.
	Unreachable platform.Platform
}

// Run holds a driver and its cloud to the contract of platform.Platform. factory
// is called once per case; each case starts on a cloud that may keep CVMs of others.
func Run(t *testing.T, factory func(t *testing.T) Target) {
	cases := []struct {
		name string
		run  func(*suite)
	}{
		{"life of a cvm keeps its identity", (*suite).life},
		{"further instances join the app", (*suite).secondInstance},
		{"names are unique", (*suite).uniqueNames},
		{"absent cvm", (*suite).absent},
		{"env reaches a provisioned hash", (*suite).env},
		{"the hash is that of the text sent", (*suite).measured},
		{"an answer that is another hash is refused", (*suite).lies},
		{"allotted app id", (*suite).allotted},
		{"image and shape change in place", (*suite).hardware},
		{"image and shape change together", (*suite).together},
		{"an impossible change is refused for certain", (*suite).misfits},
		{"a change waits for the open operation", (*suite).underWay},
		{"one update changes a stopped cvm", (*suite).stopFirst},
		{"an effect may appear late", (*suite).late},
		{"refusals are certain", (*suite).refused},
		{"lost answers are unknown", (*suite).unknown},
		{"reads are repeated", (*suite).reads},
		{"failed list is an error", (*suite).failedList},
		{"incompatible create is repeated", (*suite).incompatible},
		{"nodes", (*suite).nodes},
		{"cvms of a lost node are unknown", (*suite).lostNode},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			target := factory(t)
			c.run(&suite{T: t, Target: target, p: target.Platform})
		})
	}
}

type suite struct {
	*testing.T
	Target
	p platform.Platform
}

func (s *suite) life() {
	made := s.create("contract-life")
	if made.InstanceID == "" || made.VMUUID == "" || len(made.AppID) != 40 {
		s.Fatalf("a running cvm lacks an id: %+v", made)
	}
	next, err := s.p.Provision(s.Context(), made.VMUUID, s.Template(1))
	if err != nil {
		s.Fatalf("provision revision 1: %v", err)
	}
	if next.ComposeHash == made.ComposeHash {
		s.Fatalf("another template gave the same compose hash %s", next.ComposeHash)
	}
	if still := s.describe(made.VMUUID); still.ComposeHash != made.ComposeHash {
		s.Fatal("provision changed the cvm")
	}
	s.down(made)
	if _, err := s.p.Update(s.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: next.ComposeHash,
		EnvKey: next.EnvKey, Env: s.Template(1).Env}); err != nil {
		s.Fatalf("update: %v", err)
	}
	s.up(made)
	updated := s.await(made.VMUUID, "running at the new hash", func(i platform.Instance) bool {
		return i.Running() && i.ComposeHash == next.ComposeHash
	})
	s.sameIdentity("update", made, updated)
	for _, step := range []struct {
		name string
		call func(context.Context, string) (platform.Accepted, error)
		want func(platform.Instance) bool
	}{
		{"restart", s.p.Restart, platform.Instance.Running},
		{"force restart", s.p.ForceRestart, platform.Instance.Running},
		{"stop", s.p.Stop, stopped},
		{"start", s.p.Start, platform.Instance.Running},
		{"force stop", s.p.ForceStop, stopped},
		{"start again", s.p.Start, platform.Instance.Running},
	} {
		if _, err := step.call(s.Context(), made.VMUUID); err != nil {
			s.Fatalf("%s: %v", step.name, err)
		}
		s.sameIdentity(step.name, made, s.await(made.VMUUID, step.name, step.want))
	}
	s.remove(made)
	if err := s.p.Delete(s.Context(), made.VMUUID); err != nil {
		s.Errorf("delete of a deleted cvm: %v, want success", err)
	}
}

func (s *suite) secondInstance() {
	first := s.create("contract-first")
	p, err := s.p.Provision(s.Context(), first.VMUUID, s.Template(0))
	if err != nil {
		s.Fatalf("provision: %v", err)
	}
	if p.ComposeHash != first.ComposeHash {
		s.Fatalf("the same template gives compose hash %s on the app, %s at create", p.ComposeHash, first.ComposeHash)
	}
	_, err = s.p.Create(s.Context(), platform.CreateRequest{Name: "contract-second", AppID: first.AppID, Provisioned: p, Template: s.Template(0)})
	if err != nil {
		s.Fatalf("create in the app: %v", err)
	}
	second := s.awaitName("contract-second")
	if second.AppID != first.AppID || second.InstanceID == first.InstanceID || second.VMUUID == first.VMUUID {
		s.Errorf("second instance %+v, want app %s and own ids", second, first.AppID)
	}
	list, err := s.p.List(s.Context(), first.AppID)
	if err != nil || len(list) != 2 {
		s.Errorf("list of the app = %d cvms, %v, want 2", len(list), err)
	}
	if prefixed, err := s.p.List(s.Context(), "app_"+strings.ToUpper(first.AppID)); err != nil || len(prefixed) != 2 {
		s.Errorf("list by app_<ID> = %d cvms, %v, want 2", len(prefixed), err)
	}
	s.remove(second)
	if left := s.describe(first.VMUUID); !left.Running() {
		s.Errorf("deleting one cvm touched another: %+v", left)
	}
	s.remove(first)
}

func (s *suite) uniqueNames() {
	first := s.create("contract-name")
	defer s.remove(first)
	p := s.provision(1)
	_, err := s.p.Create(s.Context(), platform.CreateRequest{Name: "contract-name", Provisioned: p, Template: s.Template(1)})
	if !errors.Is(err, platform.ErrRefused) {
		s.Errorf("create with a taken name: %v, want ErrRefused", err)
	}
	if n := s.count("contract-name"); n != 1 {
		s.Errorf("%d cvms have the name, want 1", n)
	}
}

func (s *suite) absent() {
	const nobody = "00000000-0000-4000-8000-00000000dead"
	_, describe := s.p.Describe(s.Context(), nobody)
	_, restart := s.p.Restart(s.Context(), nobody)
	_, force := s.p.ForceRestart(s.Context(), nobody)
	_, stop := s.p.Stop(s.Context(), nobody)
	_, kill := s.p.ForceStop(s.Context(), nobody)
	_, start := s.p.Start(s.Context(), nobody)
	_, update := s.p.Update(s.Context(), platform.UpdateRequest{VMUUID: nobody, ComposeHash: strings.Repeat("ab", 32)})
	_, image := s.p.SetOSImage(s.Context(), nobody, s.Template(0).OSImage)
	_, resize := s.p.Resize(s.Context(), nobody, platform.Shape{DiskGB: 1 << 10})
	for call, err := range map[string]error{"describe": describe, "restart": restart, "force restart": force,
		"stop": stop, "force stop": kill, "start": start, "update": update, "set os image": image, "resize": resize} {
		if !errors.Is(err, platform.ErrNotFound) || !errors.Is(err, platform.ErrRefused) {
			s.Errorf("%s of an absent cvm: %v, want ErrNotFound and ErrRefused", call, err)
		}
	}
	if err := s.p.Delete(s.Context(), nobody); err != nil {
		s.Errorf("delete of an absent cvm: %v, want success", err)
	}
	if _, err := s.p.Describe(s.Context(), ""); !errors.Is(err, platform.ErrRefused) {
		s.Errorf("describe of the empty id: %v, want ErrRefused", err)
	}
}

func (s *suite) env() {
	made := s.create("contract-env")
	defer s.remove(made)
	t := s.Template(0, "CADRE_CONTRACT")
	t.Env = map[string]string{"CADRE_CONTRACT": "a b"}
	p, err := s.p.Provision(s.Context(), made.VMUUID, t)
	if err != nil {
		s.Fatalf("provision with env: %v", err)
	}
	if len(p.EnvKey) != 32 {
		s.Fatalf("env key has %d bytes, want 32", len(p.EnvKey))
	}
	if p.ComposeHash == made.ComposeHash {
		s.Error("other env names gave the same compose hash")
	}
	s.down(made)
	if _, err := s.p.Update(s.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: p.ComposeHash, EnvKey: p.EnvKey, Env: t.Env}); err != nil {
		s.Fatalf("update with env: %v", err)
	}
	s.up(made)
	s.await(made.VMUUID, "running with env", func(i platform.Instance) bool { return i.Running() && i.ComposeHash == p.ComposeHash })
}

func (s *suite) allotted() {
	if s.NextAppID == nil {
		s.Skip("this target allots no app ids")
	}
	appID, nonce, err := s.NextAppID(s.Context())
	if err != nil {
		s.Fatalf("allot an app id: %v", err)
	}
	t := s.Template(0)
	t.AppID, t.AppNonce = appID, nonce
	p, err := s.p.Provision(s.Context(), "", t)
	if err != nil || p.AppID != appID {
		s.Fatalf("provision with app id %s = %+v, %v", appID, p, err)
	}
	if _, err := s.p.Create(s.Context(), platform.CreateRequest{Name: "contract-allotted", Provisioned: p, Template: t}); err != nil {
		s.Fatalf("create: %v", err)
	}
	made := s.awaitName("contract-allotted")
	if made.AppID != appID {
		s.Errorf("app id = %s, want the allotted %s", made.AppID, appID)
	}
	s.remove(made)
}

func (s *suite) nodes() {
	nodes, err := s.p.Nodes(s.Context())
	if err != nil || len(nodes) == 0 || nodes[0].ID == "" {
		s.Errorf("nodes = %+v, %v, want at least one with an id", nodes, err)
	}
	offer := s.offer()
	if err := offer.Check(s.Template(0)); err != nil {
		s.Errorf("the offer %+v does not have what the template names: %v", offer, err)
	}
	if s.p.Habits().Settle <= 0 {
		s.Error("the driver knows no settle time: an effect would be taken for absent at once")
	}
}

func (s *suite) provision(revision int) platform.Provisioned {
	s.Helper()
	p, err := s.p.Provision(s.Context(), "", s.Template(revision))
	if err != nil {
		s.Fatalf("provision revision %d: %v", revision, err)
	}
	if p.ComposeHash != hashOfText(s.Template(revision)) || len(p.AppID) != 40 {
		s.Fatalf("provision = %+v, want the hash of the text sent and a 40 digit app id", p)
	}
	return p
}

// create makes an app with one running CVM at revision 0.
func (s *suite) create(name string) platform.Instance {
	s.Helper()
	p := s.provision(0)
	made, err := s.p.Create(s.Context(), platform.CreateRequest{Name: name, Provisioned: p, Template: s.Template(0)})
	if err != nil {
		s.Fatalf("create %s: %v", name, err)
	}
	if made.Name != name {
		s.Fatalf("create %s gave a cvm called %q", name, made.Name)
	}
	running := s.awaitName(name)
	if running.ComposeHash != p.ComposeHash {
		s.Fatalf("%s runs compose hash %s, provisioned was %s", name, running.ComposeHash, p.ComposeHash)
	}
	return running
}

func (s *suite) describe(id string) platform.Instance {
	s.Helper()
	i, err := s.p.Describe(s.Context(), id)
	if err != nil {
		s.Fatalf("describe %s: %v", id, err)
	}
	return i
}

func (s *suite) await(id, what string, done func(platform.Instance) bool) platform.Instance {
	s.Helper()
	var last platform.Instance
	s.poll(what, func() (bool, string) {
		i, err := s.p.Describe(s.Context(), id)
		last = i
		return err == nil && done(i), fmt.Sprintf("%+v, %v", i, err)
	})
	return last
}

// awaitName waits for the CVM called name to run; a create may not show its ids at once.
func (s *suite) awaitName(name string) platform.Instance {
	s.Helper()
	var found platform.Instance
	s.poll(name+" running", func() (bool, string) {
		list, err := s.p.List(s.Context(), "")
		for _, i := range list {
			if i.Name == name {
				found = i
			}
		}
		return err == nil && found.Running() && found.InstanceID != "", fmt.Sprintf("%+v, %v", found, err)
	})
	return found
}

func (s *suite) count(name string) int {
	s.Helper()
	list, err := s.p.List(s.Context(), "")
	if err != nil {
		s.Fatalf("list: %v", err)
	}
	n := 0
	for _, i := range list {
		if strings.EqualFold(i.Name, name) && i.Status != "deleting" {
			n++
		}
	}
	return n
}

func (s *suite) remove(i platform.Instance) {
	s.Helper()
	if err := s.p.Delete(s.Context(), i.VMUUID); err != nil {
		s.Errorf("delete %s: %v", i.Name, err)
	}
	s.gone(i)
}

func (s *suite) gone(i platform.Instance) {
	s.Helper()
	s.poll(i.Name+" gone", func() (bool, string) {
		_, err := s.p.Describe(s.Context(), i.VMUUID)
		return errors.Is(err, platform.ErrNotFound), fmt.Sprint(err)
	})
}

func (s *suite) sameIdentity(step string, before, after platform.Instance) {
	s.Helper()
	if before.VMUUID != after.VMUUID || before.InstanceID != after.InstanceID || before.AppID != after.AppID || before.Name != after.Name {
		s.Errorf("%s changed the identity:\nbefore %+v\nafter  %+v", step, before, after)
	}
}

func (s *suite) poll(what string, done func() (bool, string)) {
	s.Helper()
	settle := s.Settle
	if settle == 0 {
		settle = 30 * time.Second
	}
	deadline := time.NewTimer(settle)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, seen := done()
		if ok {
			return
		}
		select {
		case <-deadline.C:
			s.Fatalf("%s: not within %s; last seen: %s", what, settle, seen)
		case <-s.Context().Done():
			s.Fatalf("%s: %v", what, context.Cause(s.Context()))
		case <-tick.C:
		}
	}
}
