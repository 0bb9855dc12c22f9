package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/audit"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

const (
	// editsPause joins edits that follow each other, and bounds the entries of a script that edits
	// without a pause.
	editsPause = 200 * time.Millisecond
	// maxEdits bounds the entries of one transaction.
	maxEdits = 25
)

// entered has the values of specs and of records below control/ by the audit chain. Each change by
// the API or by a leader has an entry, so a record that differs was edited in Consul KV.
type entered struct {
	mu turn
	// at is the number of the last entry that was read; nil: none was read under this Lease.
	at *uint64
	// first is the index of the oldest kept entry: older records may have lost their entries.
	first uint64
	// digests of the last known values, by key; none for an absent record.
	digests map[string]string
}

// forget begins again under another Lease.
func (e *entered) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.digests = nil, nil
}

// loadLocked reads the whole chain once, and verifies it.
func (r *Reconciler) loadLocked(ctx context.Context) error {
	e := &r.entered
	if e.at != nil {
		return nil
	}
	entries, _, err := r.cfg.Store.List(ctx, store.AuditPrefix)
	if err != nil {
		return fmt.Errorf("read the audit chain: %w", err)
	}
	e.first, e.digests = math.MaxUint64, map[string]string{}
	at := uint64(0)
	var v *audit.Verifier
	for _, entry := range entries {
		if entry.Key == store.AuditHeadKey {
			continue
		}
		e.first, at = min(e.first, entry.Index), store.AuditPoint(entry).Number
		one, err := store.Decode[audit.Entry](entry)
		if err != nil {
			r.log.Error("entry of the audit chain not readable", "code", policy.CodeAuditChainBroken, "error", err)
			continue
		}
		if v == nil {
			v = audit.After(audit.Point{Number: one.Number - 1, Digest: one.Previous})
		}
		if err := v.Next(one); err != nil {
			r.log.Error("the audit chain was edited", "code", policy.CodeAuditChainBroken, "error", err)
			v = audit.After(audit.Point{Number: one.Number, Digest: one.Digest()})
		}
		e.addLocked(one)
	}
	e.at = &at
	return nil
}

func (e *entered) addLocked(one audit.Entry) {
	switch {
	case !store.Audited(one.Object):
	case one.After == "":
		delete(e.digests, one.Object) // requests come and go without end
	default:
		e.digests[one.Object] = one.After
	}
}

// readLocked reads keys at one moment, and the entries up to that moment.
func (r *Reconciler) readLocked(ctx context.Context, keys []string) (map[string]store.Entry, error) {
	if err := r.loadLocked(ctx); err != nil {
		return nil, err
	}
	read, err := r.cfg.Store.Together(ctx, append([]string{store.AuditHeadKey}, keys...)...)
	if err != nil {
		return nil, fmt.Errorf("read edited records: %w", err)
	}
	now := map[string]store.Entry{}
	var head audit.Head
	for _, entry := range read {
		if entry.Key != store.AuditHeadKey {
			now[entry.Key] = entry
		} else if head, err = store.Decode[audit.Head](entry); err != nil {
			head = audit.Head{}
		}
	}
	for *r.entered.at < head.Last.Number {
		some, err := store.ReadAudit(ctx, r.cfg.Store, *r.entered.at+1, head.Last.Number)
		if err != nil && len(store.RecordErrors(err)) == 0 {
			return nil, fmt.Errorf("read the audit chain: %w", err)
		}
		if len(some) == 0 {
			break
		}
		for _, one := range some {
			r.entered.addLocked(one)
			*r.entered.at = one.Number
		}
	}
	if *r.entered.at == head.Last.Number {
		return now, nil
	}
	// The chain is damaged. Its remaining entries may be newer than the records that were read; then
	// the check of the indexes fails.
	r.entered.at = nil
	return now, r.loadLocked(ctx)
}

// editedLocked returns the Op that enters an edit of a record; ok is false when the chain knows its
// value.
func (r *Reconciler) editedLocked(key string, now store.Entry) (op store.Op, ok bool) {
	before, known := r.entered.digests[key]
	exists := now.Index != 0
	after := audit.ValueDigest(now.Value, exists)
	if exists && !known && now.Index < r.entered.first {
		r.entered.digests[key] = after // it is older than the chain
		return op, false
	}
	if before == after {
		return op, false
	}
	op = store.Op{Kind: store.OpCheckIndex, Key: key, Index: now.Index}
	if !exists {
		op = store.Op{Kind: store.OpCheckAbsent, Key: key}
	}
	return store.Noted(op, audit.Entry{At: r.cfg.Now(), Who: audit.KV, By: store.WrittenToKV, Verb: "edit", Before: before}), true
}

// noticeEdits enters the edits of specs and of records below control/ in Consul KV, until ctx ends.
func (r *Reconciler) noticeEdits(ctx context.Context, lease store.Lease) {
	r.entered.forget()
	records := r.cfg.Views.Subscribe()
	defer records.Close()
	edited := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { r.watchControl(ctx, edited) })
	specs, failing := map[string]uint64{}, ""
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-edited:
		case <-records.C():
			v, _ := records.Take()
			if v == nil {
				continue
			}
			now := specIndexes(v)
			if maps.Equal(specs, now) {
				continue
			}
			specs = now
		}
		wait(ctx, editsPause)
		switch err := r.enterEdits(ctx, lease); {
		case ctx.Err() != nil, errors.Is(err, store.ErrFenced):
			return
		case err == nil:
			failing = ""
			continue
		case !errors.Is(err, store.ErrConflict) && err.Error() != failing:
			failing = err.Error()
			r.log.Warn("edits in Consul KV not entered in the audit chain", "error", err)
		}
		wait(ctx, errorWait)
		select {
		case edited <- struct{}{}:
		default:
		}
	}
}

// watchControl leaves a value in edited at each change below control/.
func (r *Reconciler) watchControl(ctx context.Context, edited chan<- struct{}) {
	for index := uint64(0); ctx.Err() == nil; {
		next, err := r.cfg.Store.Watch(ctx, store.ControlPrefix, index)
		if err != nil {
			wait(ctx, errorWait)
			continue
		}
		if next != index {
			select {
			case edited <- struct{}{}:
			default:
			}
		}
		index = next
	}
}

func specIndexes(v *view.View) map[string]uint64 {
	out := make(map[string]uint64, len(v.Specs))
	for name, spec := range v.Specs {
		out[name] = spec.Index
	}
	return out
}

// enterEdits enters each record that differs from the chain.
func (r *Reconciler) enterEdits(ctx context.Context, lease store.Lease) error {
	r.entered.mu.Lock()
	defer r.entered.mu.Unlock()
	if _, err := r.readLocked(ctx, nil); err != nil {
		return err
	}
	stored, _, err := r.cfg.Store.List(ctx, store.ControlPrefix)
	if err != nil {
		return fmt.Errorf("read the operators' records: %w", err)
	}
	seen := map[string]store.Entry{}
	for _, entry := range stored {
		seen[entry.Key] = entry
	}
	if v, _ := r.cfg.Views.Latest(); v != nil { // the first View brings the specs
		for name, spec := range v.Specs {
			key := store.GroupSpecKey(name)
			seen[key] = store.Entry{Key: key, Value: spec.Raw, Index: spec.Index}
		}
	}
	for key := range r.entered.digests {
		if _, there := seen[key]; !there {
			seen[key] = store.Entry{Key: key}
		}
	}
	var differ []string
	for key, entry := range seen {
		if _, is := r.editedLocked(key, entry); is && store.CheckKey(key) == nil {
			differ = append(differ, key)
		}
	}
	slices.Sort(differ)
	for keys := range slices.Chunk(differ, maxEdits) {
		// Between the reads above an act may have changed a record together with the chain.
		now, err := r.readLocked(ctx, keys)
		if err != nil {
			return err
		}
		var ops []store.Op
		var names []string
		for _, key := range keys {
			if op, is := r.editedLocked(key, now[key]); is {
				ops, names = append(ops, op), append(names, key)
			}
		}
		if len(ops) == 0 {
			continue
		}
		if err := r.cfg.Store.Commit(ctx, append(lease.Fence(), ops...)...); err != nil {
			return err
		}
		r.log.Info("edits in Consul KV entered in the audit chain", "keys", strings.Join(names, " "))
	}
	return nil
}
