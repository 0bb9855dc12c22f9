package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/route"
	"cadre.dev/store"
)

// Spec is a group's desired state as an operator wrote it.
type Spec struct {
	Raw   []byte
	Index uint64
	// Value is normalised; meaningful only while Err is nil.
	Value group.Spec
	// Err lists every problem with its field path.
	Err error
}

// Rec is a record with the index for its check-and-set.
type Rec[T any] struct {
	Value T
	Index uint64
}

// View is the records at one moment; those of a Watcher may differ by kind in which. It is
// read-only: what did not change is shared with the one before.
type View struct {
	// Index grows with each change of anything.
	Index         uint64
	Specs         map[string]Spec                      // by group
	Accepted      map[string]Accepted                  // by group; last spec that the leader accepted
	Statuses      map[string]Rec[group.Status]         // by group; with the Instances
	Instances     map[string]Rec[group.InstanceStatus] // by Slot
	Revisions     map[string]Rec[group.RevisionRecord] // by digest
	Slots         map[string]Rec[group.SlotRecord]     // by Slot
	Addresses     map[string]Rec[address.Given]        // by group
	Routes        map[string]Rec[route.Record]         // by route; their addresses
	ServiceMeshes map[string]Rec[group.ServiceMesh]    // by group; not in a View of one group
	Operations    map[string]Rec[operation.Operation]  // by id
	Rollouts      map[string]Rec[operation.Rollout]    // by id
	Policies      map[string]Rec[policy.SlotPolicy]    // by Slot
	Admissions    map[string]Rec[policy.Admission]     // by Slot
	Refusals      map[string]Rec[policy.Refusal]       // by Slot
	Boots         map[string]Boot                      // by Slot; their leases
	Nonces        map[string]Rec[store.SpentNonce]     // by key
	Queue         map[string]Rec[store.QueueRequest]   // by id
	// Overrides by kind and scope: what operators keep from the leader, also those whose time is over.
	Overrides map[store.OverrideKind]map[string]Rec[store.Override]
	// Deletes, DeleteDisks and Adoptions by group: what operators asked for.
	Deletes     map[string]Rec[store.DeleteGroup]
	DeleteDisks map[string]Rec[store.DeleteDisks]
	Adoptions   map[string]Rec[store.Adoption]
	// Proofs by Slot: what Boots proved that no record binds.
	Proofs map[string]Rec[policy.Proof]
	// Secrets and Rotates by group and name: epochs, and requests for new ones.
	Secrets map[SecretName]Rec[store.SecretRecord]
	Rotates map[SecretName]Rec[store.RotateRequest]
	Gate    Gate
	// Ledger is what the leader accepted about the judgement of machines.
	Ledger Rec[policy.TCBLedger]
	Term   uint64
	// State is how far the records have come.
	State uint64
	// Elapsed is the time that passed for the coordinators, as recorded with State, in milliseconds.
	Elapsed uint64
	// Recovery is what an operator raised Term and state to; zero: nothing.
	Recovery store.Recovery
	Leader   string
	// Bad records could not be read; the rest could.
	Bad []*store.RecordError

	// others is where the policies of the other groups stand, in a View of one group; nil:
	// here.
	others *View
	// badOf are the bad ones of each kind; Bad is all of them.
	badOf      [kindCount][]*store.RecordError
	leaderTerm uint64
	// zero is when, by this process's clock, no time had elapsed yet; nil: it is not known.
	zero      func() time.Time
	decisions []store.Entry // decoded when asked for: they are long and nothing rests on them
	// said is what the records of each kind said, for reads of some of them; nil: not kept.
	said [kindCount]*memo
	// turn counts the Views of a Watcher from 1 on. In a View of one group it is that of others,
	// and sums tell what the records of each kind say. 0: of no Watcher.
	turn uint64
	sums [kindCount]uint64
	// own is the group of a View of one, and slots are its records by ordinal; "": of all.
	own   string
	slots []group.SlotRecord
	// lacked: Revisions that its records name were not in others, and may be written meanwhile.
	lacked bool
	// bySlot are the Operations of each Slot, newest first; nil in a View that was not read.
	bySlot map[string][]Rec[operation.Operation]
}

// Read reads everything with one consistent list: for whoever must know all records as
// they are at one moment, which costs as much as there is of them.
func Read(ctx context.Context, s store.Store) (*View, error) { return read(ctx, s, nil) }

func read(ctx context.Context, s store.Store, known *memo) (*View, error) {
	entries, index, err := s.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read all records: %w", err)
	}
	known.turn()
	v := made(ctx, moment{entries: entries, known: known}, kinds)
	v.Index = index
	return v, nil
}

// beside is the View of what was read beside latest, as far as these kinds go: what the records
// said there already is not decoded again.
func beside(ctx context.Context, latest *View, entries []store.Entry, of []kind) *View {
	v := &View{}
	for _, k := range of {
		v.take(ctx, k, moment{entries: entries, known: latest.said[k.id]})
	}
	v.collectBad()
	return v
}

// made is the View of what was read, as far as these kinds go.
func made(ctx context.Context, at moment, of []kind) *View {
	v := &View{}
	for _, k := range of {
		v.take(ctx, k, at)
	}
	v.collectBad()
	return v
}

// take reads the records of one kind anew.
func (v *View) take(ctx context.Context, k kind, at moment) {
	var errs []error
	k.read(v, ctx, at, &errs)
	var bad []*store.RecordError
	for _, err := range errs {
		bad = append(bad, store.RecordErrors(err)...)
	}
	v.badOf[k.id] = bad
}

func (v *View) collectBad() {
	v.Bad = nil
	for _, bad := range v.badOf {
		v.Bad = append(v.Bad, bad...)
	}
}

// readSpecs decodes specs itself, since their decoder reports all problems.
func (v *View) readSpecs(at moment) {
	v.Specs = map[string]Spec{}
	for _, e := range at.entries {
		if !strings.HasPrefix(e.Key, store.GroupsPrefix) || !strings.HasSuffix(e.Key, "/spec") {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(e.Key, store.GroupsPrefix), "/spec")
		kind, err := store.KindOf(e.Key)
		if err != nil || e.Key != store.GroupSpecKey(name) {
			continue
		}
		spec := Spec{Raw: e.Value, Index: e.Index}
		value, known := recall[group.Spec](at.known, e)
		switch {
		case known:
			spec.Value = value
		case len(e.Value) > kind.MaxBytes:
			spec.Err = fmt.Errorf("spec: %d bytes, at most %d are allowed: shorten the compose file", len(e.Value), kind.MaxBytes)
		default:
			if spec.Value, spec.Err = DecodeSpec(e.Value, name); spec.Err == nil {
				rememberRecord(at.known, e, spec.Value)
			}
		}
		v.Specs[name] = spec
	}
}

// DecodeSpec decodes, normalises and validates the spec stored under name. The error has all that is wrong
// with it, also where a field has another type than it should.
func DecodeSpec(raw []byte, name string) (group.Spec, error) {
	return decodeSpec(raw, name, group.Validate)
}

// decodeSpec refuses a spec that makes its own reader panic: the View of all other records must not
// depend on it.
func decodeSpec(raw []byte, name string, validate func(group.Spec) error) (spec group.Spec, err error) {
	err = contain.Call(func() error {
		read, err := group.Decode(raw)
		var wrong *group.ValidationError
		if err != nil && !errors.As(err, &wrong) {
			return err
		}
		if spec = read; spec.Name != name {
			return wrong.And(fmt.Errorf("name: %q does not match the group %q that the spec is stored under", spec.Name, name))
		}
		spec.Normalize()
		return wrong.And(validate(spec))
	})
	return spec, err
}

// Groups lists the names of all specs, sorted.
func (v *View) Groups() []string { return slices.Sorted(maps.Keys(v.Specs)) }

// SlotsOf lists a group's Slot records by ordinal. Do not change the result.
func (v *View) SlotsOf(name string) []group.SlotRecord {
	if v.own == name && name != "" {
		return v.slots
	}
	return slotsOf(v.Slots, name)
}

func slotsOf(all map[string]Rec[group.SlotRecord], name string) []group.SlotRecord {
	count := 0
	for _, s := range all {
		if s.Value.Group == name {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	// They are long: the list is made once, as long as it becomes.
	out := make([]group.SlotRecord, 0, count)
	for _, s := range all {
		if s.Value.Group == name {
			out = append(out, s.Value)
		}
	}
	slices.SortFunc(out, func(a, b group.SlotRecord) int { return a.Ordinal - b.Ordinal })
	return out
}

// Admitted reports whether a Boot is the Slot now. By no View it is not.
func (v *View) Admitted(slot, boot string) bool {
	return v != nil && boot != "" && v.Admissions[slot].Value.BootID == boot
}

// OpenOperation is the Slot's Operation that has not ended, if there is one.
func (v *View) OpenOperation(slot string) (Rec[operation.Operation], bool) {
	for _, o := range v.OperationsOf(slot) {
		if !o.Value.Phase.Ended() {
			return o, true
		}
	}
	return Rec[operation.Operation]{}, false
}

// moment is a Store that only lists what was read at one moment, so that the
// store's typed readers can be used on it.
type moment struct {
	store.Store
	entries []store.Entry // sorted by key
	known   *memo         // of earlier moments
}

func (m moment) List(_ context.Context, prefix string) ([]store.Entry, uint64, error) {
	return below(m.entries, prefix), 0, nil
}

// below are those of the entries, sorted by key, that are below prefix.
func below(entries []store.Entry, prefix string) []store.Entry {
	from, _ := slices.BinarySearchFunc(entries, prefix, byKey)
	out := entries[from:]
	for n, e := range out {
		if !strings.HasPrefix(e.Key, prefix) {
			return out[:n:n]
		}
	}
	return slices.Clip(out)
}

func byKey(e store.Entry, key string) int { return strings.Compare(e.Key, key) }

func (m moment) below(prefix string) []store.Entry { return below(m.entries, prefix) }

// keyed are the records below prefix by their keys.
func keyed[T any](ctx context.Context, m moment, prefix string, errs *[]error) map[string]Rec[T] {
	out := map[string]Rec[T]{}
	each(ctx, m, prefix, errs, func(key string, rec Rec[T]) { out[key] = rec })
	return out
}

// collect are the records below prefix by their names. One that names another key than its own
// is not believed.
func collect[T any](ctx context.Context, m moment, prefix string, errs *[]error, name func(T) string) map[string]Rec[T] {
	out := map[string]Rec[T]{}
	each(ctx, m, prefix, errs, func(key string, rec Rec[T]) {
		got := name(rec.Value)
		if !strings.Contains("/"+key+"/", "/"+got+"/") || got == "" {
			*errs = append(*errs, &store.RecordError{Key: key, Index: rec.Index, Err: fmt.Errorf("names %q", got)})
			return
		}
		out[got] = rec
	})
	return out
}

// each gives take the records below prefix that are a T; errs get those that cannot be read.
func each[T any](ctx context.Context, m moment, prefix string, errs *[]error, take func(key string, rec Rec[T])) {
	unknown := moment{}
	for _, e := range m.below(prefix) {
		if value, ok := recall[T](m.known, e); ok {
			take(e.Key, Rec[T]{Value: value, Index: e.Index})
		} else if !isOther[T](m.known, e.Key) {
			unknown.entries = append(unknown.entries, e)
		}
	}
	if len(unknown.entries) == 0 {
		return
	}
	records, _, err := store.ReadAll[T](ctx, unknown, prefix)
	if err != nil {
		*errs = append(*errs, err)
	}
	for _, r := range records {
		take(r.Key, Rec[T]{Value: r.Value, Index: r.Index})
		at, _ := slices.BinarySearchFunc(unknown.entries, r.Key, byKey)
		rememberRecord(m.known, unknown.entries[at], r.Value)
	}
}
