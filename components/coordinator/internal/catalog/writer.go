package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// Reports returns the last report of each Slot.
type Reports interface {
	Of(slot string) (reports.Received, bool)
}

// Config of a Writer. All fields are required.
type Config struct {
	// Address (host:port) of the local Consul, and the management token.
	Address, Token string
	Store          store.Store
	Views          *view.Watcher
	Reports        Reports
	// First reports whether this coordinator writes at once. The others wait for a moment, so that
	// one change causes one write.
	First func() bool
	Now   func() time.Time
	Log   *slog.Logger
	// Panics confines a panic to the Slot under evaluation; nil: a panic ends the process.
	Panics *contain.Panics
}

const (
	// behind is how long the other coordinators wait: longer than a write takes.
	behind = 300 * time.Millisecond
	// trustFor is how long the Writer relies on a read or a write of its own before it reads the
	// entry again. The times of these reads are spread over a third of it.
	trustFor = 6 * time.Minute
	// silentAfter is how long a lease must be free before its Boot counts as silent.
	silentAfter = 10 * time.Second
	// retryIn is the pause after a failed read or write.
	retryIn = time.Second
	// writers is the number of concurrent writes.
	writers = 8
	// tries bounds the attempts when another coordinator changed the entry first.
	tries     = 4
	callLimit = 10 * time.Second
)

// Writer keeps the catalog in its wanted state. Safe for concurrent use.
type Writer struct {
	cfg    Config
	client *consul.Client

	mu sync.Mutex
	// due are the Slots to evaluate, with the time; guarded by mu.
	due map[string]time.Time
	// known is the catalog as this coordinator last saw it; guarded by mu.
	known map[string]seen
	// free is the time since when each Slot's lease is free; guarded by mu.
	free map[string]time.Time
	// claims are the Boots whose last report claims to lead, by group and Slot; guarded by mu.
	claims map[string]map[string]claim
	// paces of the recently written Slots; guarded by mu.
	paces map[string]pace
	// gone are the Slots without an admission, with the time of their check for an orphan; guarded
	// by mu.
	gone map[string]time.Time
	// meshes are the last readable service mesh records, by group; guarded by mu.
	meshes map[string]meshAt
	// evaluating is the number of Slots under evaluation; guarded by mu.
	evaluating int
	wake       chan struct{} // capacity 1
}

type meshAt struct {
	mesh  group.ServiceMesh
	index uint64
}

type seen struct {
	entry Entry
	agent bool
	until time.Time
}

// New makes a Writer; it does not connect.
func New(cfg Config) (*Writer, error) {
	client, err := consul.NewClient(&consul.Config{Address: cfg.Address, Token: cfg.Token,
		Transport: &http.Transport{MaxIdleConnsPerHost: writers, IdleConnTimeout: time.Minute, DisableCompression: true}})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Writer{cfg: cfg, client: client, due: map[string]time.Time{}, known: map[string]seen{}, claims: map[string]map[string]claim{}, paces: map[string]pace{}, gone: map[string]time.Time{}, meshes: map[string]meshAt{}, free: map[string]time.Time{}, wake: make(chan struct{}, 1)}, nil
}

// Register makes the entry of a Boot that just took its Slot, so that its workload can create
// sessions. The node of the Slot's previous Boot is removed. Register is called again with each
// renewal, and does nothing then.
func (w *Writer) Register(ctx context.Context, groupName, slot, boot, vip string) error {
	m := Member{Records: Records{Group: groupName, Slot: slot, Boot: boot, VIP: vip, Leased: true, ServiceMeshUnknown: true}}
	if v, _ := w.cfg.Views.Latest(); v != nil {
		m.ServiceMeshUnknown, m.Port = false, servicePort(v, groupName)
		w.takeMesh(v, &m)
	}
	if s, ok := w.recall(slot); ok && s.entry.Boot == boot && s.entry.VIP == vip {
		return nil
	}
	switch done, err := w.settle(ctx, m); {
	case err == nil && !done:
		return fmt.Errorf("register %s in the catalog: boot %.12s does not hold its lease now", slot, boot)
	case err != nil:
		return fmt.Errorf("register %s in the catalog: %w", slot, err)
	}
	return nil
}

// Remove removes the node of a Slot's Boot, and with it all sessions on that node. With boot "" it
// removes the node of any Boot. A node of another Boot stays, and so does the node of a Consul
// agent.
func (w *Writer) Remove(ctx context.Context, slot, boot string) error {
	for range tries {
		w.forget(slot)
		found, err := w.find(ctx, "", slot, false)
		if err != nil {
			return err
		}
		if !found.Exists || found.Agent || boot != "" && found.NodeBoot != boot {
			return nil
		}
		err = w.removeFound(ctx, slot, found)
		if !errors.Is(err, errChanged) {
			w.forget(slot)
			return err
		}
	}
	return fmt.Errorf("remove node %s: %w", slot, errChanged)
}

// Note schedules a Slot whose report has arrived.
func (w *Writer) Note(slot string) {
	after := behind
	if w.cfg.First() {
		after = 0
	}
	w.dueIn(slot, after)
}

func (w *Writer) dueIn(slot string, after time.Duration) {
	at := w.cfg.Now().Add(after)
	w.mu.Lock()
	if before, waits := w.due[slot]; !waits || at.Before(before) {
		w.due[slot] = at
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes the due entries until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	records := w.cfg.Views.Subscribe()
	defer records.Close()
	last := map[string]Records{}
	for {
		v, changed := records.Take()
		if v != nil {
			// Reports wake this loop far more often than the records change.
			if changed.Any() {
				w.noteChanges(v, changed, last)
			}
			w.writeDue(ctx, v)
		}
		timer := time.NewTimer(w.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-records.C():
		case <-w.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// noteChanges schedules the Slots whose records changed. noteChanges compares them with last, and
// updates last. A Slot of an unchanged group costs one comparison of the group's name.
func (w *Writer) noteChanges(v *view.View, changed view.Changes, last map[string]Records) {
	concerned := func(group string) bool {
		_, is := changed.Groups[group]
		return is || changed.All
	}
	for slot, before := range last {
		if _, still := v.Admissions[slot]; !still && concerned(before.Group) {
			w.forget(slot)
			w.noteGone(slot)
			w.unpace(slot)
			w.noteClaim(Member{Records: before})
			delete(last, slot)
		}
	}
	w.noteFree(v, concerned)
	for slot, a := range v.Admissions {
		if !concerned(a.Value.Group) {
			continue
		}
		m, ok := w.memberOf(v, slot)
		if !ok {
			delete(last, slot)
			continue
		}
		if before, had := last[slot]; !had || before != m.Records {
			last[slot] = m.Records
			w.Note(slot)
		}
	}
}

// noteFree records since when this coordinator sees the lease of a Slot free.
func (w *Writer) noteFree(v *view.View, concerned func(group string) bool) {
	now := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, a := range v.Admissions {
		if !concerned(a.Value.Group) {
			continue
		}
		if v.Boots[slot].LeasedBy(a.Value.BootID) {
			delete(w.free, slot)
		} else if _, already := w.free[slot]; !already {
			w.free[slot] = now
		}
	}
	for slot := range w.free {
		if _, still := v.Admissions[slot]; !still {
			delete(w.free, slot)
		}
	}
}

// memberOf returns the records' data of the Boot of a Slot; ok is false when the Slot has no Boot.
func (w *Writer) memberOf(v *view.View, slot string) (m Member, ok bool) {
	if m.Records, ok = recordsOf(v, slot); ok {
		w.takeMesh(v, &m)
	}
	return m, ok
}

// recordsOf returns the records of the Boot of a Slot, without its service mesh; ok is false when
// the Slot has no Boot.
func recordsOf(v *view.View, slot string) (out Records, ok bool) {
	a, admitted := v.Admissions[slot]
	record, bound := v.Slots[slot]
	if !admitted || !bound || record.Value.VIP == "" {
		return Records{}, false
	}
	out = Records{Group: a.Value.Group, Slot: slot, Boot: a.Value.BootID, VIP: record.Value.VIP, Port: servicePort(v, a.Value.Group), Leased: v.Boots[slot].LeasedBy(a.Value.BootID), Ended: v.Boots[slot].EndedBy(a.Value.BootID)}
	if op, open := v.OpenOperation(slot); open && op.Value.OutOfService() {
		out.Draining, out.HandsOver = true, op.Value.Phase == operation.Draining
	}
	return out, true
}

// servicePort returns the port of a group's own service in the accepted spec.
func servicePort(v *view.View, groupName string) int {
	spec, _, ok := v.InForce(groupName)
	if !ok {
		return 0
	}
	return spec.ServicePort()
}

// takeMesh sets m's service mesh to the last readable record of its group.
func (w *Writer) takeMesh(v *view.View, m *Member) {
	mesh, index, ok := v.ServiceMeshOf(m.Group)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ok && index == 0:
		delete(w.meshes, m.Group)
	case ok:
		w.meshes[m.Group] = meshAt{mesh, index}
	default:
		last, known := w.meshes[m.Group]
		mesh, index, m.ServiceMeshUnknown = last.mesh, last.index, !known
	}
	m.ServiceMesh, m.MeshAt = mesh, index
}

// pause returns the time until the next Slot is due.
func (w *Writer) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := time.Minute
	now := w.cfg.Now()
	for _, at := range w.due {
		out = min(out, max(at.Sub(now), 0))
	}
	return out
}

// writeDue evaluates the due Slots and returns when all evaluations are done.
func (w *Writer) writeDue(ctx context.Context, v *view.View) {
	now := w.cfg.Now()
	w.mu.Lock()
	var slots []string
	for slot, at := range w.due {
		if !at.After(now) {
			slots = append(slots, slot)
		}
	}
	for _, slot := range slots {
		delete(w.due, slot)
	}
	w.evaluating = len(slots)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.evaluating = 0
	}()
	slices.Sort(slots)
	work := make(chan string)
	var all sync.WaitGroup
	for range min(writers, len(slots)) {
		all.Go(func() {
			for slot := range work {
				if err := w.cfg.Panics.Do("catalog", func() error { w.evaluate(ctx, v, slot); return nil }); err != nil {
					w.dueIn(slot, retryIn)
				}
			}
		})
	}
	for _, slot := range slots {
		work <- slot
	}
	close(work)
	all.Wait()
}

// evaluate compares one Slot's entry with its wanted state and writes the difference.
func (w *Writer) evaluate(ctx context.Context, v *view.View, slot string) {
	m, ok := w.memberOf(v, slot)
	switch {
	case ctx.Err() != nil:
		return
	case !ok:
		w.sweep(ctx, slot)
		return
	}
	if got, heard := w.cfg.Reports.Of(slot); heard && got.BootID == m.Boot {
		m.hear(got)
	}
	w.noteClaim(m)
	m.Rival = w.rival(v, m)
	if m.Leased && m.Report == nil {
		return // another coordinator has its report, or the first report is still to come
	}
	if s, ok := w.recall(slot); ok && (s.agent || same(s.entry, Want(m))) {
		return
	}
	if !m.Leased && !m.Ended && !w.silent(m) {
		w.dueIn(slot, retryIn)
		return
	}
	if w.holdBack(m) {
		return
	}
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if _, err := w.settle(call, m); err != nil && ctx.Err() == nil {
		w.cfg.Log.Warn("catalog not written; the write is retried", "group", m.Group, "slot", slot, "error", err)
		w.dueIn(slot, retryIn)
	}
}

// silent reports whether the lease of m has been free for silentAfter. When a coordinator ends, the
// leases that it kept stay free until another coordinator takes them over.
func (w *Writer) silent(m Member) bool {
	if m.Report != nil && w.cfg.Now().Sub(m.Report.ReceivedAt) < reports.LiveWithin {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cfg.Now().Sub(w.free[m.Slot]) >= silentAfter
}

// settle brings one entry to its wanted state. done is false when the records differ from m; settle
// then writes nothing. The first attempt reads the local server. If another coordinator wrote
// first, the write fails, and the next attempt reads from the leader.
func (w *Writer) settle(ctx context.Context, m Member) (done bool, err error) {
	want := Want(m)
	err = errChanged
	for try := 0; try < tries && errors.Is(err, errChanged); try++ {
		var found Found
		if found, err = w.find(ctx, m.Group, m.Slot, try == 0); err != nil {
			return false, err
		}
		plan := Decide(found, want)
		if plan.Step == Keep {
			w.remember(found)
			return true, nil
		}
		next := want
		fence, ok, failed := w.leaseFence(ctx, m.Slot, m.Boot)
		if !m.Leased {
			next.Sequence = max(next.Sequence, found.Sequence)
			fence, ok, failed = w.lapsedFence(ctx, m.Slot)
		}
		if failed != nil || !ok {
			return false, failed // the records changed; the View will schedule the Slot again
		}
		if try == 0 {
			w.spend(m.Slot)
		}
		// Without an answer the write may have happened, so the known entry is dropped and read
		// again.
		w.forget(m.Slot)
		whole := true
		if plan.transacts() {
			whole, err = w.write(ctx, fence, plan, found, next)
		}
		switch {
		case err == nil && !whole:
			try, err = 0, errChanged // the rest follows from the next read
			continue
		case err == nil:
			err = w.registerCallers(ctx, next, plan.Callers)
		}
		if err == nil {
			w.cfg.Log.Info("member in the catalog", "group", m.Group, "slot", m.Slot, "boot", m.Boot, "ready", next.Ready, "role", next.Role, "reason", next.Why, "services", len(next.Services))
			if next.Partial {
				next.Services = found.Services
			}
			w.remember(Found{Entry: next})
		}
	}
	return err == nil, err
}

func (w *Writer) recall(slot string) (seen, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.known[slot]
	return s, ok && w.cfg.Now().Before(s.until)
}

func (w *Writer) remember(f Found) {
	if f.Slot == "" {
		return
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(f.Slot))
	spread := trustFor / 3 * time.Duration(sum.Sum32()%1000) / 1000
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[f.Slot] = seen{entry: f.Entry, agent: f.Agent, until: w.cfg.Now().Add(trustFor - spread)}
}

func (w *Writer) forget(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, slot)
}

// decodeLease decodes a lease record. An unreadable record belongs to no Boot.
func decodeLease(entry store.Entry) store.BootLease {
	var out store.BootLease
	if err := json.Unmarshal(entry.Value, &out); err != nil {
		return store.BootLease{}
	}
	return out
}
