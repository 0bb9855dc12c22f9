package specvalidate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

var ownApp = strings.Repeat("c0", 20)

func spec(change func(*group.Spec)) group.Spec {
	s := group.Spec{
		Name: "pg", Platform: "phala", Replicas: 3,
		Template: group.Template{
			Compose:      "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) + "\n",
			InstanceType: "tdx.small", OSImage: "dstack-0.5.7",
		},
	}
	s.Normalize()
	if change != nil {
		change(&s)
	}
	return s
}

// adds appends a line to the compose text, which ends inside the service.
func adds(line string) func(*group.Spec) {
	return func(s *group.Spec) { s.Template.Compose += "    " + line + "\n" }
}

// records has a stored spec and, with an index, the previously accepted one.
func records(stored group.Spec, index uint64, accepted *group.Spec, acceptedOf uint64) *view.View {
	v := &view.View{Specs: map[string]view.Spec{"pg": {Value: stored, Index: index}}, Accepted: map[string]view.Accepted{}}
	if accepted != nil {
		v.Accepted["pg"] = view.Accepted{Value: *accepted, SpecIndex: acceptedOf, Index: index + 1}
	}
	return v
}

// The API and the leader reject the same specs, each with its code.
func TestATT14_ATT16_ATT17_TOK19_StoredSpecsAreLinted(t *testing.T) {
	good := spec(nil)
	for name, c := range map[string]struct {
		change func(*group.Spec)
		rule   string
	}{
		"privileged":                {adds("privileged: true"), "COMPOSE_FORBIDDEN"},
		"the guest agent's socket":  {adds("volumes: [\"/var/run/dstack.sock:/var/run/dstack.sock\"]"), "COMPOSE_FORBIDDEN"},
		"the engine's socket":       {adds("volumes: [\"/var/run/docker.sock:/var/run/docker.sock\"]"), "COMPOSE_FORBIDDEN"},
		"code from the environment": {adds("command: $RUN"), "IMAGE_NOT_PINNED"},
	} {
		bad := spec(c.change)
		if err := group.Validate(bad); err != nil {
			t.Fatalf("%s: the document alone is refused, so this shows nothing: %v", name, err)
		}
		for before, v := range map[string]*view.View{"first": records(bad, 5, nil, 0), "edit": records(bad, 5, &good, 4)} {
			var refused *group.ValidationError
			if err := specvalidate.New(ownApp, nil).Stored(v, "pg"); !errors.As(err, &refused) || refused.Problems[0].Rule != c.rule ||
				!strings.HasPrefix(refused.Problems[0].Path, "template.") || specvalidate.Code(err) != policy.CodeSpecInvalid {
				t.Errorf("%s, %s: %v, want %s", name, before, err, c.rule)
			}
		}
	}
	if err := specvalidate.New(ownApp, nil).Stored(records(good, 5, nil, 0), "pg"); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

// A new rule of lint does not end a spec in force, and does not stop its scaling; new content is
// checked.
func TestContentInForceIsNotLintedAgain(t *testing.T) {
	old := spec(adds("privileged: true"))
	scaled, envValue, other := old, spec(adds("privileged: true")), spec(adds("privileged:  true"))
	scaled.Replicas = 5
	envValue.Template.Env = map[string]string{"MODE": "x"}
	for name, c := range map[string]struct {
		stored group.Spec
		index  uint64
		fit    bool
	}{
		"the accepted one":        {old, 5, true},
		"scaled":                  {scaled, 6, true},
		"the same, written again": {old, 6, true},
		"another variable":        {envValue, 6, false},
		"another text":            {other, 6, false},
	} {
		judge, v := specvalidate.New(ownApp, nil), records(c.stored, c.index, &old, 5)
		if err := judge.Stored(v, "pg"); (err == nil) != c.fit {
			t.Errorf("%s: stored: %v", name, err)
		}
		if err := judge.Edit(v, c.stored); (err == nil) != c.fit {
			t.Errorf("%s: applied: %v", name, err)
		}
	}
}

func TestIDN07_TheOwnAppIsJudgedAlways(t *testing.T) {
	judge := specvalidate.New("0x"+strings.ToUpper(ownApp), nil)
	own := spec(func(s *group.Spec) { s.AppID = ownApp })
	for name, v := range map[string]*view.View{"first": records(own, 5, nil, 0), "accepted before": records(own, 5, &own, 5)} {
		if err := judge.Stored(v, "pg"); specvalidate.Code(err) != policy.CodeIdentityForbidden || !strings.Contains(err.Error(), "app_id") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for app, refused := range map[string]bool{"": false, ownApp: true, "0x" + ownApp: true, strings.ToUpper(ownApp): true, strings.Repeat("ab", 20): false} {
		if err := judge.App(app); (err != nil) != refused {
			t.Errorf("app %q: %v", app, err)
		}
	}
	if judge := specvalidate.New("", nil); judge.App("") != nil {
		t.Error("no app is taken for the own one")
	}
}

func TestCodeIsOfTheWorstProblem(t *testing.T) {
	problem := func(rules ...string) error {
		e := &group.ValidationError{Group: "pg"}
		for _, r := range rules {
			e.Problems = append(e.Problems, group.Problem{Path: "x", Rule: r})
		}
		return fmt.Errorf("apply: %w", e)
	}
	for want, err := range map[policy.Code]error{
		policy.CodeSpecInvalid:       problem("R15", "COMPOSE_FORBIDDEN"),
		policy.CodeSecretInSpec:      problem("R15", "SECRET_IN_SPEC"),
		policy.CodeIdentityForbidden: problem("SECRET_IN_SPEC", "IDENTITY_FORBIDDEN"),
	} {
		if got := specvalidate.Code(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// The test lints more contents than the cache can hold, and then the same again.
func TestManyContentsAreJudgedRight(t *testing.T) {
	judge := specvalidate.New(ownApp, nil)
	for range 2 {
		for i := range 100 {
			s := spec(adds(fmt.Sprintf("user: \"%d\"", i)))
			bad := i%30 != 0 // valid ones cost most
			if bad {
				adds("privileged: true")(&s)
			}
			if got := judge.Template(s.Template); (len(got) > 0) != bad {
				t.Fatalf("content %d: %v", i, got)
			}
		}
	}
}

// TestHK03_AHookNamesWhatTheComposeTextDeclares: the rule applies also to an edit that leaves the
// group's content unchanged, and to a plain KV edit.
func TestHK03_AHookNamesWhatTheComposeTextDeclares(t *testing.T) {
	good := spec(nil)
	bad := spec(func(s *group.Spec) {
		s.LifecycleHooks = []group.LifecycleHook{{Name: "drain", Transition: group.PreTerminate, Exec: &group.ExecAction{Service: "pg", Command: "drain"}}}
		s.Normalize()
	})
	if err := group.Validate(bad); err != nil {
		t.Fatalf("the document alone is refused, so this shows nothing: %v", err)
	}
	for before, v := range map[string]*view.View{"first": records(bad, 5, nil, 0), "edit": records(bad, 5, &good, 4)} {
		var refused *group.ValidationError
		if err := specvalidate.New(ownApp, nil).Stored(v, "pg"); !errors.As(err, &refused) || len(refused.Problems) != 1 ||
			refused.Problems[0].Rule != "EXEC_FORBIDDEN" || refused.Problems[0].Path != `lifecycle_hook["drain"].exec.service` {
			t.Errorf("%s: %v", before, err)
		}
	}
}

// A disk only grows, and no member moves to an image under which no Boot is admitted. The check
// applies to a new spec, to an edit by the API and to a plain KV edit.
func TestR131_ATT20_HardwareIsJudgedAgainstWhatIsInForce(t *testing.T) {
	images := map[string][]policy.Measurement{"dstack-0.5.7": {{}}, "dstack-0.5.9": {{}}}
	disk := func(gb int) func(*group.Spec) { return func(s *group.Spec) { s.Template.DiskGB = gb } }
	image := func(name string) func(*group.Spec) {
		return func(s *group.Spec) { s.Template.OSImage = name }
	}
	for name, c := range map[string]struct {
		old    func(*group.Spec) // nil: the group is new
		change func(*group.Spec)
		path   string // "": permitted
	}{
		"a larger disk":           {disk(20), disk(40), ""},
		"a smaller disk":          {disk(40), disk(20), "template.disk_gb"},
		"a disk left out again":   {disk(40), disk(0), "template.disk_gb"},
		"a first disk":            {nil, disk(20), ""},
		"another trusted image":   {image("dstack-0.5.7"), image("dstack-0.5.9"), ""},
		"an untrusted image":      {image("dstack-0.5.7"), image("dstack-0.5.6"), "template.os_image"},
		"a first untrusted image": {nil, image("dstack-0.5.6"), "template.os_image"},
		// A trust file without the image does not stop the scaling of running members.
		"an image that was trusted": {image("dstack-0.5.6"), func(s *group.Spec) { s.Template.OSImage, s.Replicas = "dstack-0.5.6", 5 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			next, v := spec(c.change), records(spec(c.change), 9, nil, 0)
			if c.old != nil {
				old := spec(c.old)
				v = records(next, 9, &old, 8)
			}
			judge := specvalidate.New(ownApp, images)
			for way, err := range map[string]error{"edit": judge.Edit(v, next), "stored": judge.Stored(v, "pg")} {
				var refused *group.ValidationError
				switch {
				case c.path == "" && err != nil:
					t.Errorf("%s: %v", way, err)
				case c.path != "" && (!errors.As(err, &refused) || len(refused.Problems) != 1 || refused.Problems[0].Path != c.path):
					t.Errorf("%s: %v, want one problem of %s", way, err, c.path)
				}
			}
			if c.path == "template.os_image" && !strings.Contains(judge.Edit(v, next).Error(), "dstack-0.5.7, dstack-0.5.9") {
				t.Errorf("%v does not say which would do", judge.Edit(v, next))
			}
		})
	}
}

// TestR131_TheAppIsTheOneThatTheCVMsAreIn: this holds whether or not the spec in force names it.
func TestR131_TheAppIsTheOneThatTheCVMsAreIn(t *testing.T) {
	one, other := strings.Repeat("ab", 20), strings.Repeat("cd", 20)
	app := func(id string) func(*group.Spec) { return func(s *group.Spec) { s.AppID = id } }
	for name, c := range map[string]struct {
		bound    []string // apps of the recorded Slots
		old, new string
		may      bool
	}{
		"another than is named":               {[]string{one, one}, one, other, false},
		"another than was allotted":           {[]string{one, ""}, "", other, false},
		"the allotted one is written down":    {[]string{one, one}, "", one, true},
		"the name is left out":                {[]string{one}, one, "", true},
		"nothing is recorded":                 {nil, one, other, false},
		"no CVM was made yet":                 {[]string{"", ""}, one, other, true},
		"a split group goes back to its app":  {[]string{one, other}, other, one, true},
		"a split group goes to a third one":   {[]string{one, other}, other, strings.Repeat("ef", 20), false},
		"another writing of the platform's":   {[]string{"0x" + strings.ToUpper(one)}, "", one, true},
		"nothing changes in an app of before": {[]string{one}, one, one, true},
	} {
		old, next := spec(app(c.old)), spec(app(c.new))
		v := records(next, 9, &old, 8)
		v.Slots = map[string]view.Rec[group.SlotRecord]{}
		for i, id := range c.bound {
			slot := group.SlotName("pg", i)
			v.Slots[slot] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "pg", Slot: slot, Ordinal: i, AppID: id}}
		}
		judge := specvalidate.New(ownApp, nil)
		for way, err := range map[string]error{"edit": judge.Edit(v, next), "stored": judge.Stored(v, "pg")} {
			var refused *group.ValidationError
			if c.may != (err == nil) || err != nil && (!errors.As(err, &refused) || refused.Problems[0].Path != "app_id") {
				t.Errorf("%s, %s: %v", name, way, err)
			}
		}
	}
}

// TestNamesThatOthersHaveAreRefused: all of them are reported at once, with the other problems.
func TestNamesThatOthersHaveAreRefused(t *testing.T) {
	db := spec(func(s *group.Spec) {
		s.Name = "db"
		s.Backends = []group.Backend{{Name: "sql", Port: 5432}, {Name: "rest", Port: 80, Registration: group.Registration{Parent: "ledger"}}}
		s.Routes = []group.Route{{Name: "pg-master", Backend: "sql"}}
	})
	taker := spec(func(s *group.Spec) {
		s.AppID = ownApp
		s.Backends = []group.Backend{{Name: "a", Port: 1, Registration: group.Registration{Parent: "db"}}, {Name: "b", Port: 2, Registration: group.Registration{Parent: "db-sql"}}}
		s.Routes = []group.Route{{Name: "pg-master", Backend: "a"}, {Name: "ledger", Backend: "b"}, {Name: "pg", Backend: "b"}}
	})
	v := records(taker, 5, nil, 0)
	v.Accepted["db"] = view.Accepted{Value: db, SpecIndex: 9, Index: 10}
	want := []string{"app_id", `backend["a"]`, `backend["b"]`, `route["pg-master"]`, `route["ledger"]`}
	for name, err := range map[string]error{"stored": specvalidate.New(ownApp, nil).Stored(v, "pg"), "applied": specvalidate.New(ownApp, nil).Edit(v, taker)} {
		var refused *group.ValidationError
		var paths []string
		if errors.As(err, &refused) {
			for _, p := range refused.Problems {
				paths = append(paths, p.Path)
			}
		}
		if !slices.Equal(paths, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The spec in force keeps its names, and so does the group itself.
	v = &view.View{Specs: map[string]view.Spec{"db": {Value: db, Index: 5}}, Accepted: map[string]view.Accepted{"db": {Value: db, SpecIndex: 5, Index: 6}}}
	if err := specvalidate.New(ownApp, nil).Edit(v, db); err != nil {
		t.Errorf("its own names: %v", err)
	}
}

// TestAnExistingClaimBlocksNoEdit: two groups that claim one name can both be scaled, and
// each can give the name up; neither can take another.
func TestAnExistingClaimBlocksNoEdit(t *testing.T) {
	named := func(name string, routes ...string) group.Spec {
		return spec(func(s *group.Spec) {
			s.Name = name
			s.Backends = []group.Backend{{Name: "x", Port: 80}}
			for _, r := range routes {
				s.Routes = append(s.Routes, group.Route{Name: r, Backend: "x"})
			}
		})
	}
	v := &view.View{Accepted: map[string]view.Accepted{
		"first": {Value: named("first", "front", "second-only"), SpecIndex: 5, Index: 6}, "second": {Value: named("second", "front"), SpecIndex: 7, Index: 8},
	}}
	judge := specvalidate.New(ownApp, nil)
	for _, name := range []string{"first", "second"} {
		scaled := v.Accepted[name].Value
		scaled.Replicas = 5
		if err := judge.Edit(v, scaled); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := judge.Edit(v, named("second")); err != nil {
		t.Errorf("giving it up: %v", err)
	}
	if err := judge.Edit(v, named("second", "front", "second-only")); err == nil || strings.Contains(err.Error(), `route["front"]`) || !strings.Contains(err.Error(), `route["second-only"]`) {
		t.Errorf("taking another: %v", err)
	}
}

// TestOfTwoNewGroupsTheFirstGetsAName: each is evaluated together with the other.
func TestOfTwoNewGroupsTheFirstGetsAName(t *testing.T) {
	named := func(name string) group.Spec {
		return spec(func(s *group.Spec) {
			s.Name = name
			s.Backends = []group.Backend{{Name: "x", Port: 80}}
			s.Routes = []group.Route{{Name: "front", Backend: "x"}}
		})
	}
	v := &view.View{Specs: map[string]view.Spec{"first": {Value: named("first"), Index: 5}, "second": {Value: named("second"), Index: 6}}}
	judge := specvalidate.New(ownApp, nil)
	if err := judge.Stored(v, "first"); err != nil {
		t.Errorf("first: %v", err)
	}
	if err := judge.Stored(v, "second"); err == nil || !strings.Contains(err.Error(), "NAME_TAKEN") && !strings.Contains(err.Error(), "first") {
		t.Errorf("second: %v", err)
	}
	if err := judge.Edit(v, named("third")); err == nil {
		t.Error("a spec that is not stored yet takes a name")
	}
}

// TestAGroupOfAnotherPlatformIsRefused: the error names the field and the way out.
func TestAGroupOfAnotherPlatformIsRefused(t *testing.T) {
	phala := spec(func(*group.Spec) {})
	own := spec(func(s *group.Spec) { s.Platform = group.PlatformVMM })
	judge := specvalidate.New(ownApp, nil).On(group.PlatformVMM)
	err := judge.Edit(records(phala, 5, nil, 0), phala)
	if err == nil || !strings.Contains(err.Error(), `platform: is "phala", and this cluster runs on "vmm": write platform = "vmm"`) {
		t.Errorf("another platform: %v", err)
	}
	if err := judge.Edit(records(own, 5, nil, 0), own); err != nil {
		t.Errorf("the cluster's own: %v", err)
	}
	if err := judge.Stored(records(phala, 5, &phala, 5), "pg"); err != nil {
		t.Errorf("an accepted one: %v", err)
	}
}
