package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// maxMarkTime bounds how long a mark stands that is to end by itself.
const maxMarkTime = 366 * 24 * time.Hour

// SetMark implements ControlService.
func (s *Server) SetMark(ctx context.Context, req *apiv1.SetMarkRequest) (*apiv1.SetMarkResponse, error) {
	key, err := markKey(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.decider(ctx, key, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(needReason(req.GetReason()), checkFrom(req.GetKind(), req.GetFrom())); err != nil {
		return nil, err
	}
	if err := c.marksWhatIsThere(ctx, req.GetKind(), req.GetName()); err != nil {
		return nil, err
	}
	mark := store.SlotMark{Slot: req.GetName(), From: req.GetFrom(), Reason: req.GetReason(), By: c.by, At: c.now()}
	if req.GetFor() != nil {
		length := req.GetFor().AsDuration()
		if length <= 0 || length > maxMarkTime {
			return nil, status.Errorf(codes.InvalidArgument, "for: %s is not a time that it can stand: more than 0, at most %s; leave it out to have it stand until it is taken back", length, maxMarkTime)
		}
		mark.Until = mark.At.Add(length)
	}
	if req.GetKind() == apiv1.MarkKind_MARK_KIND_DRAIN {
		if err := c.notProtected(ctx, req.GetName()); err != nil {
			return nil, err
		}
	}
	changed, err := c.setMark(ctx, req.GetKind(), key, mark)
	if err != nil {
		return nil, err
	}
	if changed {
		s.cfg.Log.Info("mark set", "kind", req.GetKind(), "name", req.GetName(), "until", mark.Until, "by", c.by, "reason", mark.Reason)
	}
	return &apiv1.SetMarkResponse{Changed: changed, Mark: c.wireMark(req.GetKind(), req.GetName(), mark)}, nil
}

// slotMarks are the marks of Slots, by what stands in the records for them.
var slotMarks = map[apiv1.MarkKind]store.MarkKind{
	apiv1.MarkKind_MARK_KIND_DRAIN: store.MarkDrain, apiv1.MarkKind_MARK_KIND_PROTECT: store.MarkProtect, apiv1.MarkKind_MARK_KIND_EXCLUDE: store.MarkExclude,
}

// checkFrom refuses what an exclusion cannot be from, and what is no exclusion.
func checkFrom(kind apiv1.MarkKind, from []string) error {
	if len(from) > 0 && kind != apiv1.MarkKind_MARK_KIND_EXCLUDE {
		return status.Error(codes.InvalidArgument, "from: only an exclusion is from something; leave it out")
	}
	for i, word := range from {
		if known := word == group.FromRollout || word == group.FromHealing; !known || slices.Contains(from[:i], word) {
			return status.Errorf(codes.InvalidArgument, "from: %.64q: name %s, %s or both, each once; leave it out for both", word, group.FromRollout, group.FromHealing)
		}
	}
	return nil
}

// markKey is where a mark stands; the error names the field.
func markKey(kind apiv1.MarkKind, name string) (string, error) {
	var key string
	stored, ofSlot := slotMarks[kind]
	switch {
	case ofSlot:
		if _, _, err := group.ParseSlot(name); err != nil {
			return "", status.Error(codes.InvalidArgument, "name: "+err.Error())
		}
		key = store.MarkKey(stored, name)
	case kind == apiv1.MarkKind_MARK_KIND_FREEZE && name == "":
		return store.FreezeKey(), nil
	case kind == apiv1.MarkKind_MARK_KIND_FREEZE:
		key = store.GroupFreezeKey(name)
	case kind == apiv1.MarkKind_MARK_KIND_UNSPECIFIED:
		return "", status.Error(codes.InvalidArgument, "kind: is missing: use drain, protect, exclude or freeze")
	default:
		return "", status.Errorf(codes.InvalidArgument, "kind: %v is not known to this coordinator: it is older than the caller", kind)
	}
	if err := store.CheckKey(key); err != nil {
		return "", status.Error(codes.InvalidArgument, "name: "+err.Error())
	}
	return key, nil
}

// marksWhatIsThere refuses a mark on nothing: a word that is misspelt would protect nobody.
func (c *caller) marksWhatIsThere(ctx context.Context, kind apiv1.MarkKind, name string) error {
	_, ofSlot := slotMarks[kind]
	switch {
	case kind == apiv1.MarkKind_MARK_KIND_DRAIN:
		_, err := c.mayChangeSlot(ctx, "name", name) // its removal would wait for the drain's end
		return err
	case ofSlot:
		_, err := c.mayReadSlot(ctx, name)
		return err
	}
	return c.mayReadNamed(ctx, name)
}

// mayReadNamed is mayRead of a group that has to be there; "" is all of them.
func (c *caller) mayReadNamed(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if err := c.mayRead(ctx, name); err != nil {
		return err
	}
	if !slices.Contains(c.view.Known(), name) {
		return status.Error(codes.NotFound, "no such group: "+name)
	}
	return nil
}

// notProtected refuses to begin a drain that a protection would hold for as long as it stands.
// Where the caller may not read that one, the hold tells of it.
func (c *caller) notProtected(ctx context.Context, slot string) error {
	stands := func(key string) (mark store.SlotMark, ok bool) {
		mark, index, err := store.Read[store.SlotMark](ctx, c.store, key)
		return mark, (err == nil || index != 0) && c.stands(mark)
	}
	p, protected := stands(store.MarkKey(store.MarkProtect, slot))
	if _, drains := stands(store.MarkKey(store.MarkDrain, slot)); !protected || drains {
		return nil
	}
	until := ""
	if end := c.end(p); !end.IsZero() {
		until = ", until " + end.UTC().Format(time.RFC3339)
	}
	return status.Errorf(codes.FailedPrecondition, "name: %s is protected (%s: %s%s), and is not drained while that stands; take it back first: cadre instance unprotect %s",
		slot, cmp.Or(p.By, "unknown"), p.Reason, until, slot)
}

// end is when a mark ends by itself, by this coordinator's clock; zero: when it is taken back.
func (c *caller) end(m store.SlotMark) time.Time {
	latest, _ := c.server.cfg.Views.Latest()
	return (&view.View{}).CountLike(latest).End(m)
}

func (c *caller) stands(m store.SlotMark) bool {
	end := c.end(m)
	return end.IsZero() || c.now().Before(end)
}

// setMark writes a mark in place of the one that stands. The same one without an end is no
// change; one with an end stands anew from now on.
func (c *caller) setMark(ctx context.Context, kind apiv1.MarkKind, key string, mark store.SlotMark) (changed bool, err error) {
	freeze := store.Freeze{Reason: mark.Reason, By: mark.By, At: mark.At, Until: mark.Until}
	before, index, err := readMark(ctx, c.store, kind, key)
	switch {
	case err == nil && before.Reason == mark.Reason && before.By == mark.By && slices.Equal(before.From, mark.From) && before.Until.IsZero() && mark.Until.IsZero():
		return false, nil
	case err != nil && !errors.Is(err, store.ErrNotFound) && index == 0:
		return false, wire(err)
	}
	op, err := store.Put(key, mark, index)
	if kind == apiv1.MarkKind_MARK_KIND_FREEZE {
		op, err = store.Put(key, freeze, index)
	}
	if err != nil {
		return false, wire(err)
	}
	return true, wire(c.store.Commit(ctx, op))
}

// readMark reads either form of a mark.
func readMark(ctx context.Context, s store.Store, kind apiv1.MarkKind, key string) (store.SlotMark, uint64, error) {
	if kind != apiv1.MarkKind_MARK_KIND_FREEZE {
		return store.Read[store.SlotMark](ctx, s, key)
	}
	f, index, err := store.Read[store.Freeze](ctx, s, key)
	return f.Mark(), index, err
}

// ClearMark implements ControlService. A mark on what is gone can be taken back too; where there is
// neither, the name is misspelt.
func (s *Server) ClearMark(ctx context.Context, req *apiv1.ClearMarkRequest) (*apiv1.ClearMarkResponse, error) {
	key, err := markKey(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.decider(ctx, key, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	changed, err := c.remove(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case changed:
		s.cfg.Log.Info("mark taken back", "kind", req.GetKind(), "name", req.GetName(), "by", c.by)
	case req.GetKind() == apiv1.MarkKind_MARK_KIND_FREEZE:
		err = c.mayReadNamed(ctx, req.GetName())
	default:
		_, err = c.mayReadSlot(ctx, req.GetName())
	}
	return &apiv1.ClearMarkResponse{Changed: changed}, err
}

// ListMarks implements ControlService. What operators may read is asked of Consul.
func (s *Server) ListMarks(ctx context.Context, req *apiv1.ListMarksRequest) (*apiv1.ListMarksResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	readable := map[string]bool{req.GetGroup(): true}
	if req.GetGroup() == "" {
		readable, err = c.readable(ctx)
	} else {
		err = c.mayRead(ctx, req.GetGroup())
	}
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListMarksResponse{}
	add := func(kind apiv1.MarkKind, owner, name string, m store.SlotMark) {
		if c.stands(m) && (owner == "" || readable[owner]) {
			out.Marks = append(out.Marks, c.wireMark(kind, name, m))
		}
	}
	for kind, stored := range slotMarks {
		for slot, m := range c.view.Marks[stored] {
			if owner, _, err := group.ParseSlot(slot); err == nil {
				add(kind, owner, slot, m.Value)
			}
		}
	}
	freeze := func(name string, f store.Freeze) {
		add(apiv1.MarkKind_MARK_KIND_FREEZE, name, name, f.Mark())
	}
	for name, f := range c.view.Freezes {
		freeze(name, f.Value)
	}
	if f := c.view.Freeze; f != nil {
		freeze("", f.Value)
	}
	slices.SortFunc(out.Marks, func(a, b *apiv1.Mark) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out, nil
}

// wireMark tells of a mark, with the time that is left of it whoever's clock is right.
func (c *caller) wireMark(kind apiv1.MarkKind, name string, m store.SlotMark) *apiv1.Mark {
	out := &apiv1.Mark{Kind: kind, Name: name, From: m.From, Reason: m.Reason, By: m.By}
	if !m.At.IsZero() {
		out.At = timestamppb.New(m.At)
	}
	if end := c.end(m); !end.IsZero() {
		out.Until, out.Left = timestamppb.New(end), durationpb.New(max(end.Sub(c.now()), 0))
	}
	return out
}
