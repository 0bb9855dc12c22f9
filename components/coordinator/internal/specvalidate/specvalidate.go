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

// Validator validates specs for one cluster. Safe for concurrent use.
type Validator struct {
	ownApp string
	// platform is the driver of the cluster; "": no check.
	platform string
	// images are the OS images whose measurements the cluster trusts, sorted; nil: no check.
	images []string

	mu sync.Mutex
	// linted caches findings by content; guarded by mu. Every pass and every watch evaluates a
	// rejected spec again, and a compose text may have 256 KiB.
	linted map[[sha256.Size]byte][]group.Problem
}

// maxLinted bounds the cached contents.
const maxLinted = 64

// New returns a Validator for the cluster whose coordinators are CVMs of ownApp, and which admits Boots
// of these OS images; nil images disable that check.
func New(ownApp string, images map[string][]policy.Measurement) *Validator {
	return &Validator{ownApp: plainApp(ownApp), images: slices.Sorted(maps.Keys(images)), linted: map[[sha256.Size]byte][]group.Problem{}}
}

// On returns v for a cluster on a platform of this driver: a group of another platform is refused. Call it
// before v is used.
func (v *Validator) On(platform string) *Validator {
	v.platform = platform
	return v
}

// Edit returns why spec, a valid document, may not replace the spec in force of its group; nil: it
// may. Errors are *group.ValidationError.
//
// Content that is in force already is not linted again: a newer lint must not stop an operator from
// scaling or repairing it. The app is always checked. The specs of with are written in the same transaction, so
// `after` is judged by them.
func (v *Validator) Edit(records *view.View, spec group.Spec, with ...group.Spec) error {
	after := records.AfterUpTo(math.MaxUint64)
	for _, other := range with {
		after[other.Name] = other.After
	}
	return v.edit(records, spec, math.MaxUint64, after)
}

// edit is Edit of a spec that was stored at index; MaxUint64: it is not stored yet.
func (v *Validator) edit(records *view.View, spec group.Spec, index uint64, after map[string][]string) error {
	problems := append(v.app(spec), v.elsewhere(spec)...)
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
	if p, closes := group.CycleProblem(spec, after); closes {
		problems = append(problems, p)
	}
	// Hooks and checks name services, and can change while the content stays.
	problems = append(problems, asProblems(lint.Actions(spec))...)
	return invalid(spec.Name, problems)
}

// elsewhere refuses a group of another platform than the cluster's, whose coordinators have no other key.
func (v *Validator) elsewhere(spec group.Spec) []group.Problem {
	if v.platform == "" || spec.Platform == v.platform {
		return nil
	}
	return []group.Problem{{Path: "platform", Message: fmt.Sprintf("is %q, and this cluster runs on %q: write platform = %q, or apply the group to a cluster on %s", spec.Platform, v.platform, v.platform, spec.Platform)}}
}

// inItsApp returns accepted with the app of the group's CVMs, which next must keep. The first
// create allots an app that no spec can name before. A split group has several apps, and next may
// name any. A recorded group without a CVM may move.
func inItsApp(records *view.View, accepted, next group.Spec) group.Spec {
	recorded, apps := records.SlotsOf(accepted.Name), []string{}
	for _, r := range recorded {
		if r.AppID != "" {
			apps = append(apps, plainApp(r.AppID))
		}
	}
	switch {
	case len(recorded) == 0: // the app is unknown
	case len(apps) == 0, slices.Contains(apps, plainApp(next.AppID)):
		accepted.AppID = next.AppID
	case !slices.Contains(apps, plainApp(accepted.AppID)):
		accepted.AppID = apps[0]
	}
	return accepted
}

// taken returns the names of spec that other groups have. It leaves out names that the accepted
// spec claims already: if two groups claimed one name, neither could be repaired otherwise.
func taken(spec, accepted group.Spec, others map[string]group.Spec) []group.Problem {
	claimed := map[group.Problem]bool{}
	if accepted.Name != "" {
		for _, p := range route.Conflicts(accepted, others) {
			claimed[p] = true
		}
	}
	return slices.DeleteFunc(route.Conflicts(spec, others), func(p group.Problem) bool { return claimed[p] })
}

// Stored returns why the group's stored spec may not be in force; nil: it may, or there is none. An
// accepted spec stays in force under a newer version or lint, because holding it would not improve
// the running CVMs. The coordinators' app is the exception.
func (v *Validator) Stored(records *view.View, name string) error {
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
	return v.edit(records, stored.Value, stored.Index, records.AfterUpTo(stored.Index))
}

// Template returns everything that stops the measurement of t from fixing the running software
// (ATT-16). The Rule of each problem is its code.
func (v *Validator) Template(t group.Template) []group.Problem {
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
		clear(v.linted) // rebuilt at the cost of one lint each
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

// App rejects the coordinators' own app: its guest agents give the cluster's keys to every process
// in it (IDN-07). An empty app is accepted; the platform's answer is checked later.
func (v *Validator) App(app string) error {
	if app == "" || plainApp(app) != v.ownApp {
		return nil
	}
	return fmt.Errorf("%s: app %s is the coordinators' own: a CVM in it could derive the keys of the whole cluster", policy.CodeIdentityForbidden, v.ownApp)
}

func (v *Validator) app(spec group.Spec) []group.Problem {
	if v.App(spec.AppID) == nil {
		return nil
	}
	return []group.Problem{{
		Path: "app_id", Rule: string(policy.CodeIdentityForbidden),
		Message: "is the coordinators' own app, whose CVMs can derive the keys of the whole cluster: name another app, or none to have one created",
	}}
}

// image rejects an OS image under which no Boot is admitted (ATT-20): the first member that moves
// to it would be lost to its group until an operator moves it back.
func (v *Validator) image(name string) []group.Problem {
	if v.images == nil || slices.Contains(v.images, name) {
		return nil
	}
	return []group.Problem{{
		Path: "template.os_image", Rule: string(policy.CodeOSImageForbidden),
		Message: fmt.Sprintf("%q is not among the images whose measurements the coordinators trust, so no boot of it would be admitted: use one of %s, or add its measurements to the coordinators' trust file first",
			name, strings.Join(v.images, ", ")),
	}}
}

// Code returns the code of a rejected spec. The coordinators' app comes first, because it would
// give access to the cluster; then a secret in the spec, because it has been sent already.
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

// plainApp returns an app id in one spelling.
func plainApp(app string) string { return strings.TrimPrefix(strings.ToLower(app), "0x") }

// sameContent compares the input of lint: the text, and the names of the environment.
func sameContent(a, b group.Template) bool { return contentKey(a) == contentKey(b) }

func contentKey(t group.Template) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range append([]string{t.Compose}, slices.Sorted(maps.Keys(t.Env))...) {
		// A length before each part gives each content its own key.
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = h.Write(size[:]) // a hash never fails to write
		_, _ = h.Write([]byte(part))
	}
	return [sha256.Size]byte(h.Sum(nil))
}
