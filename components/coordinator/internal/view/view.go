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

// View has the records at one moment; in a Watcher's View the moment can differ between kinds. A
// View is read-only, because it shares unchanged records with the previous one.
type View struct {
	// Index grows with each change of any record.
	Index         uint64
	Specs         map[string]Spec                      // by group
	Accepted      map[string]Accepted                  // by group; the last spec that the leader accepted
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
	Machines      map[string]Rec[policy.MachineRecord] // by Slot
	Refusals      map[string]Rec[policy.Refusal]       // by Slot
	Boots         map[string]Boot                      // by Slot; their leases
	Nonces        map[string]Rec[store.SpentNonce]     // by key
	Queue         map[string]Rec[store.QueueRequest]   // by id
	// Overrides by kind and scope, including expired ones.
	Overrides map[store.OverrideKind]map[string]Rec[store.Override]
	// Deletes, DeleteDisks and Adoptions are the operators' requests, by group.
	Deletes     map[string]Rec[store.DeleteGroup]
	DeleteDisks map[string]Rec[store.DeleteDisks]
	Adoptions   map[string]Rec[store.Adoption]
	// Proofs by Slot: evidence of Boots that no record binds.
	Proofs map[string]Rec[policy.Proof]
	// Secrets and Rotates by group and name: epochs, and requests for new ones.
	Secrets map[SecretName]Rec[store.SecretRecord]
	Rotates map[SecretName]Rec[store.RotateRequest]
	// Seals by group and name: sealed values that wait for the leader.
	Seals map[SecretName]Rec[store.SealRequest]
	Gate  Gate
	// Ledger has the leader's accepted exceptions and lowerings.
	Ledger Rec[policy.TCBLedger]
	Term   uint64
	// State is the watermark of the records' state.
	State uint64
	// Elapsed is the coordinators' elapsed time, as recorded with State, in milliseconds.
	Elapsed uint64
	// Recovery has the values to which an operator raised Term and state; zero: none.
	Recovery store.Recovery
	// Restored names the backup that the records come from, and LastBackup the last backup of them;
	// zero: none.
	Restored   store.Restored
	LastBackup store.LastBackup
	// Limits are the limits for all groups together.
	Limits Limits
	Leader string
	// Bad lists the unreadable records.
	Bad []*store.RecordError

	// others is the View with the policies of the other groups, in a View of one group; nil: this
	// View has them.
	others *View
	// badOf lists the bad records of each kind; Bad has all of them.
	badOf      [kindCount][]*store.RecordError
	leaderTerm uint64
	// zero returns the moment, by this process's clock, at which the elapsed time was 0; nil:
	// unknown.
	zero      func() time.Time
	decisions []store.Entry // decoded on demand: they are long and no decision needs them
	// said caches the decoded records of each kind for partial reads; nil: not kept.
	said [kindCount]*memo
	// turn numbers the Views of a Watcher from 1; 0: the View is of no Watcher. A View of one group
	// has the turn of others, and sums has a stamp of its records of each kind.
	turn uint64
	sums [kindCount]uint64
	// own is the group of a View of one group, and slots are its records by ordinal; "": all
	// groups.
	own   string
	slots []group.SlotRecord
	// lacked: others had no record of a Revision that is named here; the record may appear later.
	lacked bool
	// bySlot has the Operations of each Slot, newest first; nil in a View that was not read from a
	// store.
	bySlot map[string][]Rec[operation.Operation]
}

// Read reads the records of all kinds at one moment. Its cost grows with the size of the store, so
// only callers that need all records at one moment use it. The audit chain is of no kind.
func Read(ctx context.Context, s store.Store) (*View, error) { return read(ctx, s, nil) }

func read(ctx context.Context, s store.Store, known *memo) (*View, error) {
	entries, err := s.Together(ctx, prefixesOf(kinds)...)
	if err != nil {
		return nil, fmt.Errorf("read all records: %w", err)
	}
	known.turn()
	v := made(ctx, moment{entries: entries, known: known}, kinds)
	for _, e := range entries {
		v.Index = max(v.Index, e.Index)
	}
	return v, nil
}

// readAfter returns a View of entries that were read after latest, limited to these kinds. Records
// that latest already has are not decoded again.
func readAfter(ctx context.Context, latest *View, entries []store.Entry, of []kind) *View {
	v := &View{}
	for _, k := range of {
		v.take(ctx, k, moment{entries: entries, known: latest.said[k.id]})
	}
	v.collectBad()
	return v
}

// made returns a View of the records of these kinds.
func made(ctx context.Context, at moment, of []kind) *View {
	v := &View{}
	for _, k := range of {
		v.take(ctx, k, at)
	}
	v.collectBad()
	return v
}

// take replaces the records of one kind.
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

// readSpecs decodes specs with their own decoder, which reports all problems.
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

// DecodeSpec decodes, normalises and validates the spec stored under name. The error lists every
// problem, including fields of a wrong type.
func DecodeSpec(raw []byte, name string) (group.Spec, error) {
	return decodeSpec(raw, name, group.Validate)
}

// decodeSpec contains a panic of the spec decoder, so that one spec cannot block the View of all
// other records.
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
	// Slot records are large: the list is allocated once, with its final length.
	out := make([]group.SlotRecord, 0, count)
	for _, s := range all {
		if s.Value.Group == name {
			out = append(out, s.Value)
		}
	}
	slices.SortFunc(out, func(a, b group.SlotRecord) int { return a.Ordinal - b.Ordinal })
	return out
}

// Admitted reports whether the Boot is admitted to the Slot. A nil View admits none.
func (v *View) Admitted(slot, boot string) bool {
	return v != nil && boot != "" && v.Admissions[slot].Value.BootID == boot
}

// OpenOperation returns the Slot's Operation that has not ended, if any.
func (v *View) OpenOperation(slot string) (Rec[operation.Operation], bool) {
	for _, o := range v.OperationsOf(slot) {
		if !o.Value.Phase.Ended() {
			return o, true
		}
	}
	return Rec[operation.Operation]{}, false
}

// moment is a Store that only lists the entries of one read, so that the store's typed readers work
// on them.
type moment struct {
	store.Store
	entries []store.Entry // sorted by key
	known   *memo         // of earlier moments
}

func (m moment) List(_ context.Context, prefix string) ([]store.Entry, uint64, error) {
	return below(m.entries, prefix), 0, nil
}

// below returns the entries below prefix; entries is sorted by key.
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

// keyed returns the records below prefix by their keys.
func keyed[T any](ctx context.Context, m moment, prefix string, errs *[]error) map[string]Rec[T] {
	out := map[string]Rec[T]{}
	each(ctx, m, prefix, errs, func(key string, rec Rec[T]) { out[key] = rec })
	return out
}

// collect returns the records below prefix by their names. A record that names another key than its
// own counts as unreadable.
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

// asked returns the requests of operators below prefix by their names. The rights of an operator
// depend on the key of a request, so the request must name exactly its own key.
func asked[T any](ctx context.Context, m moment, prefix string, errs *[]error, name func(T) string) map[string]Rec[T] {
	out := map[string]Rec[T]{}
	each(ctx, m, prefix, errs, func(key string, rec Rec[T]) {
		got := name(rec.Value)
		if key != prefix+got {
			*errs = append(*errs, &store.RecordError{Key: key, Index: rec.Index, Err: fmt.Errorf("names %q", got)})
			return
		}
		out[got] = rec
	})
	return out
}

// each calls take with every record below prefix that decodes as a T. Unreadable records go to
// errs.
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
