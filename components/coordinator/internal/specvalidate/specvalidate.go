package specvalidate

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"cadre.dev/compose/lint"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/route"
)

// Vet judges specs for one cluster. Safe for concurrent use.
type Vet struct {
	ownApp string
	// images are the OS images whose measurements the cluster trusts, sorted; nil: not judged.
	images []string

	mu sync.Mutex
	// linted are findings by content; guarded by mu. A refused spec is looked at in
	// every pass and by every watch, a compose text may have 256 KiB.
	linted map[[sha256.Size]byte][]group.Problem
}

// maxLinted bounds how many contents are remembered.
const maxLinted = 64

// New makes a Vet for the cluster whose coordinators are CVMs of ownApp, and which admits
// Boots of these OS images; nil images are not judged.
func New(ownApp string, images map[string][]policy.Measurement) *Vet {
	return &Vet{ownApp: plainApp(ownApp), images: slices.Sorted(maps.Keys(images)), linted: map[[sha256.Size]byte][]group.Problem{}}
}

// Edit is why spec, which is valid as a document, may not take the place of what its
// group is run by; nil: it may. Errors are *group.ValidationError.
//
// Content that the group is run by already is not linted again: a newer lint must not
// keep an operator from scaling or repairing what runs. The app is always judged.
func (v *Vet) Edit(records *view.View, spec group.Spec) error {
	return v.edit(records, spec, math.MaxUint64)
}

// edit is Edit of a spec that was stored at index; MaxUint64: it is not stored yet.
func (v *Vet) edit(records *view.View, spec group.Spec, index uint64) error {
	problems := v.app(spec)
	accepted, ok := records.Accepted[spec.Name]
	if !ok || !sameContent(accepted.Value.Template, spec.Template) {
		problems = append(problems, v.Template(spec.Template)...)
	}
	if !ok || accepted.Value.Template.OSImage != spec.Template.OSImage {
		problems = append(problems, v.image(spec.Template.OSImage)...)
	}
	if ok {
		problems = append(problems, group.EditProblems(inItsApp(records, accepted.Value, spec), spec)...)
	}
	problems = append(problems, taken(spec, accepted.Value, records.Before(index))...)
	// What hooks and checks name can change while the content does not.
	problems = append(problems, asProblems(lint.Actions(spec))...)
	return invalid(spec.Name, problems)
}

// inItsApp is accepted with the app that the group's CVMs are in, which next is to stay in: the
// first create allots one that no spec may name yet. Of several, which a group that was split has,
// next may name any; a group that is recorded and has no CVM yet may move.
func inItsApp(records *view.View, accepted, next group.Spec) group.Spec {
	recorded, apps := records.SlotsOf(accepted.Name), []string{}
	for _, r := range recorded {
		if r.AppID != "" {
			apps = append(apps, plainApp(r.AppID))
		}
	}
	switch {
	case len(recorded) == 0: // nobody knows
	case len(apps) == 0, slices.Contains(apps, plainApp(next.AppID)):
		accepted.AppID = next.AppID
	case !slices.Contains(apps, plainApp(accepted.AppID)):
		accepted.AppID = apps[0]
	}
	return accepted
}

// taken are the names of spec that others have. What the accepted one claims already is not
// refused again: of two groups that got to claim one name, neither could be repaired.
func taken(spec, accepted group.Spec, others map[string]group.Spec) []group.Problem {
	claimed := map[group.Problem]bool{}
	if accepted.Name != "" {
		for _, p := range route.Conflicts(accepted, others) {
			claimed[p] = true
		}
	}
	return slices.DeleteFunc(route.Conflicts(spec, others), func(p group.Problem) bool { return claimed[p] })
}

// Stored is why the group's stored spec may not be in force; nil: it may, or there is
// none. One that was accepted stays so whatever a newer version or its lint would say, since what
// runs by it would not run any better for being held; but not in the coordinators' app.
func (v *Vet) Stored(records *view.View, name string) error {
	stored, ok := records.Specs[name]
	if !ok {
		return nil
	}
	if accepted, ok := records.Accepted[name]; ok && accepted.SpecIndex == stored.Index {
		return invalid(name, v.app(accepted.Value))
	}
	if stored.Err != nil {
		return stored.Err
	}
	return v.edit(records, stored.Value, stored.Index)
}

// Template is everything that keeps the measurement of t from fixing what runs (ATT-16).
// The Rule of each problem is its code.
func (v *Vet) Template(t group.Template) []group.Problem {
	key := contentKey(t)
	v.mu.Lock()
	known, ok := v.linted[key]
	v.mu.Unlock()
	if ok {
		return slices.Clone(known)
	}
	problems := asProblems(lint.Errors(lint.Spec(t.Compose, t.Env)))
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.linted) >= maxLinted {
		clear(v.linted) // rebuilt at the price of one lint each
	}
	v.linted[key] = problems
	return slices.Clone(problems)
}

func asProblems(findings []lint.Finding) []group.Problem {
	problems := []group.Problem{}
	for _, f := range findings {
		problems = append(problems, group.Problem{
			Path: strings.TrimSuffix(f.Place(), ": "), Message: string(f.Severity) + ": " + f.Text(), Rule: f.Code(),
		})
	}
	return problems
}

// App refuses the coordinators' own app: its guest agents hand the cluster's keys to
// whatever runs in it (IDN-07). An empty app is not theirs; the platform's answer is to
// be judged then.
func (v *Vet) App(app string) error {
	if app == "" || plainApp(app) != v.ownApp {
		return nil
	}
	return fmt.Errorf("%s: app %s is the coordinators' own: a CVM in it could derive the keys of the whole cluster", policy.CodeIdentityForbidden, v.ownApp)
}

func (v *Vet) app(spec group.Spec) []group.Problem {
	if v.App(spec.AppID) == nil {
		return nil
	}
	return []group.Problem{{
		Path: "app_id", Rule: string(policy.CodeIdentityForbidden),
		Message: "is the coordinators' own app, whose CVMs can derive the keys of the whole cluster: name another app, or none to have one made",
	}}
}

// image refuses an OS image of which nobody would be admitted (ATT-20): the member that
// moves to it first would be lost to its group until somebody moves it back.
func (v *Vet) image(name string) []group.Problem {
	if v.images == nil || slices.Contains(v.images, name) {
		return nil
	}
	return []group.Problem{{
		Path: "template.os_image", Rule: string(policy.CodeOSImageForbidden),
		Message: fmt.Sprintf("%q is not among the images whose measurements the coordinators trust, so no boot of it would be admitted: use one of %s, or add its measurements to the coordinators' trust file first",
			name, strings.Join(v.images, ", ")),
	}}
}

// Code is the code of a spec that is refused. Whoever asks for the coordinators' app
// asks for the cluster; a secret in a spec has been sent already: these come first.
func Code(err error) policy.Code {
	var refused *group.ValidationError
	if !errors.As(err, &refused) {
		return policy.CodeSpecInvalid
	}
	for _, code := range []policy.Code{policy.CodeIdentityForbidden, policy.CodeSecretInSpec} {
		if slices.ContainsFunc(refused.Problems, func(p group.Problem) bool { return p.Rule == string(code) }) {
			return code
		}
	}
	return policy.CodeSpecInvalid
}

func invalid(name string, problems []group.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &group.ValidationError{Group: name, Problems: problems}
}

// plainApp is an app id in one spelling.
func plainApp(app string) string { return strings.TrimPrefix(strings.ToLower(app), "0x") }

// sameContent compares what lint reads: the text, and the names of the environment.
func sameContent(a, b group.Template) bool { return contentKey(a) == contentKey(b) }

func contentKey(t group.Template) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range append([]string{t.Compose}, slices.Sorted(maps.Keys(t.Env))...) {
		// A length before each part: no two contents share a key.
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = h.Write(size[:]) // a hash never fails to write
		_, _ = h.Write([]byte(part))
	}
	return [sha256.Size]byte(h.Sum(nil))
}
