package group

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/strictjson/strictjsontest"
)

// most bounds the allocations for judging one spec of a few KiB: no list may grow with its numbers.
const most = 4 << 20

// allocated is how many bytes do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An operator's dry run, and an edit of the spec by KV, once ended every coordinator.
func TestINP03_ReplicasBeyondTheBoundAreRefusedWithoutAList(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, MaxReplicas + 1, 1 << 31, 1 << 36, math.MaxInt - 1, math.MaxInt} {
		s := goodSpec()
		s.Replicas, s.Without, s.Instances = n, []string{"postgres-1"}, []InstanceSettings{{Ordinal: 1999}}
		var got []string
		if bytes := allocated(func() { got = problems(t, s) }); bytes > most {
			t.Errorf("replicas %d: validation allocated %d bytes", n, bytes)
		}
		if !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, "replicas: is ") }) {
			t.Errorf("replicas %d: %q", n, got)
		}
		if bytes := allocated(func() { everything(s) }); bytes > most {
			t.Errorf("replicas %d: a spec that was not validated allocated %d bytes", n, bytes)
		}
		if all := s.Ordinals(); len(all) > 0 && (all[len(all)-1] != s.lastOrdinal() || s.lastOrdinal() >= MaxReplicas) {
			t.Errorf("replicas %d: the last ordinal is %d, and counted %d", n, all[len(all)-1], s.lastOrdinal())
		}
	}
	s := goodSpec()
	s.Replicas = MaxDriven + 1
	if got := problems(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "replicas: is 101: a group with workload.kind \"patroni\" has at most 100") {
		t.Errorf("voters beyond the bound: %q", got)
	}
}

// everything computes every value that depends on the numbers of a spec that was not validated.
func everything(s Spec) {
	_ = Validate(s)
	_ = ValidateAccepted(s)
	_ = Warnings(s)
	_ = s.Members()
	_, _, _ = MaxUnavailable(s), MaxSurge(s), VoterCap(s, s.Replicas)
	_, _, _, _ = MinReady(s), HealthyDeadline(s), ProgressDeadline(s), DrainDeadline(s)
	_, _, _ = InitialDelay(s), MaxAttempts(s), HealWindow(s)
	_ = s.Revision()
	_ = s.AllSecrets()
	_ = Changes(Spec{}, s)
	_ = EditProblems(Spec{}, s)
	_ = s.AgentConfig(SlotName(s.Name, 0), "")
	for _, one := range s.Instances {
		_, _, _ = s.HasOrdinal(one.Ordinal), s.KeptBy(one.Ordinal, Exclusion{}), s.EnvOf(one.Ordinal, s.Template)
	}
}

// filledSpecs are specs in which together every field has a value: some fields exclude each other.
func filledSpecs(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, percent := range []bool{true, false} {
		s := strictjsontest.Filled[Spec]()
		if p := &s.UpdatePolicy; percent {
			p.MaxUnavailableFixed, p.MaxSurgeFixed, s.HealthChecks[0].TTL = nil, nil, nil
		} else {
			p.MaxUnavailablePercent, p.MaxSurgePercent = nil, nil
		}
		s.Backends[0].Registration.Owner = OwnerWorkload // or its ttl has no meaning
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return out
}

// absurd are the extremes that no number or duration of a spec may have.
func absurd(text string) bool {
	return slices.Contains([]string{"4611686018427387904", "9223372036854775807", "-9223372036854775808", `"2562047h47m16.854775807s"`, `"-1ns"`}, text)
}

// An extreme number in any field of a spec is rejected with the field's name, quickly and without
// memory in proportion to the number.
func TestINP03_AnExtremeNumberInAnyFieldIsRefusedByItsName(t *testing.T) {
	types := map[string]string{}
	walkFields(reflect.TypeFor[Spec](), "", func(path, typ string) {
		if typ == "number" || typ == "duration" {
			types[path] = typ
		}
	})
	const clamped = "update_policy.max_unavailable_fixed" // to replicas (R13)
	judged := map[string]bool{}
	for _, doc := range filledSpecs(t) {
		for c := range strictjsontest.Extreme(t, doc) {
			if types[c.Path] == "" {
				continue
			}
			var err error
			bytes := allocated(func() {
				var s Spec
				if s, err = Decode(c.Text); err == nil {
					err = Validate(s)
					everything(s)
				}
			})
			if bytes > most {
				t.Errorf("%s = %s: judging it allocated %d bytes", c.Path, c.Value, bytes)
			}
			if absurd(c.Value) && !names(err, c.Path) && c.Path != clamped {
				t.Errorf("%s = %s: no error names the field: %.300v", c.Path, c.Value, err)
			}
			judged[c.Path] = true
		}
	}
	for path := range types {
		if !judged[path] {
			t.Errorf("%s was not tried", path)
		}
	}
}

// names reports that err is about the field at path.
func names(err error, path string) bool {
	var invalid *ValidationError
	if !errors.As(err, &invalid) {
		return err != nil && strings.Contains(err.Error(), path[strings.LastIndexByte(path, '.')+1:])
	}
	return slices.ContainsFunc(invalid.Problems, func(p Problem) bool {
		at := plainPath(p.Path)
		return at != "" && (at == path || strings.HasPrefix(path, at+"."))
	})
}
