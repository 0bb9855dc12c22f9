package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// deploymentService serves DeploymentService.
type deploymentService struct {
	apiv1.UnimplementedDeploymentServiceServer
	s *Server
}

// written is a deployment as one call wants to write it.
type written struct {
	*caller
	request, reason string
	// record is that before the call, and index its modify index; 0: there is none.
	record  deployment.Record
	index   uint64
	present deployment.Version
	// of is the version that an undo brings back; 0: it is no undo.
	of     int
	labels map[string]string
	// edits are the groups of the document.
	edits []*edit
}

// edit is the change of one group.
type edit struct {
	name string
	// raw is the compact text, digest its name, and spec its meaning, while wrong is nil.
	raw    []byte
	digest string
	spec   group.Spec
	wrong  error
	// index is that of the stored spec. want is the index that the caller expects, 0 for any; absent: none.
	want, index uint64
	absent      bool
	// same: the stored spec means the same.
	same bool
	// write: the transaction writes the spec, as text.
	write    bool
	text     []byte
	warnings []string
	with     []store.Op
}

// ApplyDeployment implements DeploymentService.
func (d deploymentService) ApplyDeployment(ctx context.Context, req *apiv1.ApplyDeploymentRequest) (*apiv1.ApplyDeploymentResponse, error) {
	// Each group costs a question to Consul, and each problem a line of the answer.
	if many := deployment.TooMany(len(req.GetLabels()), len(req.GetGroups())); len(many) > 0 {
		return nil, status.Error(codes.InvalidArgument, string(policy.CodeSpecInvalid)+": "+deployment.Error(req.GetName(), many).Error())
	}
	w, err := d.read(ctx, req.GetName(), req.GetReason(), cmp.Or(req.GetRequestId(), "apply-"+uuid.NewString()))
	if err != nil {
		return nil, err
	}
	if err := w.expected(req.GetExpectedVersion(), req.GetExpectAbsent()); err != nil {
		return nil, err
	}
	if req.GetUndo() {
		err = w.undo(ctx, int(req.GetUndoTo()))
		for _, g := range req.GetGroups() {
			for _, e := range w.edits {
				if e.name == g.GetGroup() {
					e.want, e.absent = g.GetExpectedIndex(), g.GetExpectAbsent()
				}
			}
		}
	} else {
		w.labels = req.GetLabels()
		for _, g := range req.GetGroups() {
			e := newEdit(g.GetGroup(), g.GetSpecJson(), g.GetExpectedIndex())
			e.absent = g.GetExpectAbsent()
			w.edits = append(w.edits, e)
		}
	}
	if err == nil {
		err = w.mayReadAll(ctx)
	}
	if err == nil {
		err = w.judge(ctx)
	}
	if err != nil {
		return nil, err
	}
	next := w.next()
	out := &apiv1.ApplyDeploymentResponse{Of: int64(w.of), Version: int64(w.present.Number), By: w.present.By, RequestId: w.present.Request, Leaving: w.leaving()}
	out.Changed = !next.Same(w.present) || w.index == 0 || slices.ContainsFunc(w.edits, func(e *edit) bool { return e.write })
	if len(out.GetLeaving()) > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the document leaves out %s: they keep running, outside of the deployment; delete them with `cadre group delete`", strings.Join(out.GetLeaving(), ", ")))
	}
	if out.GetChanged() {
		record := w.record.Append(next)
		next, _ = record.Present()
		out.Version = int64(next.Number)
		if !req.GetDryRun() {
			if err := w.commit(ctx, record); err != nil {
				return nil, err
			}
			out.By, out.RequestId = next.By, next.Request
		}
	}
	for _, e := range w.edits {
		out.Groups = append(out.Groups, w.answer(ctx, e, req.GetDryRun()))
	}
	return out, nil
}

func newEdit(name string, text []byte, want uint64) *edit {
	e := &edit{name: name, raw: compact(text), want: want}
	e.digest = deployment.Digest(e.raw)
	e.spec, e.wrong = view.DecodeSpec(text, name)
	e.spec.Name = name
	return e
}

// read reads the record of a deployment for a call that changes it.
func (d deploymentService) read(ctx context.Context, name, reason, request string) (*written, error) {
	if err := store.CheckRequestID(request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if p := group.NameProblem(name); p != "" {
		return nil, status.Errorf(codes.InvalidArgument, "name: %.80q %s", name, p)
	}
	c, err := d.s.decider(ctx, store.DeploymentsPrefix, "reason", reason)
	if err != nil {
		return nil, err
	}
	w := &written{caller: c, request: request, reason: reason, record: deployment.Record{Name: name}}
	record, index, err := store.Read[deployment.Record](ctx, d.s.cfg.Store, store.DeploymentKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return w, nil
	}
	if err != nil {
		return nil, wire(err)
	}
	w.record, w.index = record, index
	w.present, _ = record.Present()
	return w, nil
}

// expected rejects a call about another version than the caller read.
func (w *written) expected(version int64, absent bool) error {
	switch {
	case absent && version != 0:
		return status.Error(codes.InvalidArgument, "expect_absent, expected_version: both are set; set one of them: the deployment is new, or this version was read")
	case absent && w.index != 0:
		return status.Errorf(codes.Aborted, string(policy.CodeSpecConflict)+": deployment %s exists already: another caller created it; read it before you change it", w.record.Name)
	case version != 0 && version != int64(w.present.Number):
		return status.Errorf(codes.Aborted, string(policy.CodeSpecConflict)+": deployment %s is at version %d, not %d: it was changed; read it again", w.record.Name, w.present.Number, version)
	}
	return nil
}

// undo takes labels and specs of an earlier version; number 0: of the one before.
func (w *written) undo(ctx context.Context, number int) error {
	if w.index == 0 {
		return status.Error(codes.NotFound, "no such deployment: "+w.record.Name)
	}
	to, err := w.record.Before()
	if number != 0 {
		var kept bool
		if to, kept = w.record.Version(number); !kept {
			return status.Errorf(codes.NotFound, "deployment %s has no version %d any more, or never had: `cadre deployment history %s` lists the versions", w.record.Name, number, w.record.Name)
		}
		err = nil
	}
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	w.of, w.labels = to.Number, to.Labels
	for _, name := range to.Names() {
		text, err := w.server.specOf(ctx, w.record.Name, to.Groups[name])
		if err != nil {
			return err
		}
		w.edits = append(w.edits, newEdit(name, text, 0))
	}
	return nil
}

// specOf reads the spec of a version.
func (s *Server) specOf(ctx context.Context, name, digest string) ([]byte, error) {
	text, _, err := store.ReadRaw(ctx, s.cfg.Store, store.DeploymentSpecKey(name, digest))
	switch {
	case err != nil:
		return nil, wire(fmt.Errorf("read the spec %.8s of deployment %s: %w", digest, name, err))
	case deployment.Digest(text) != digest:
		return nil, status.Errorf(codes.DataLoss, "the spec %.8s of deployment %s has another content by now: apply a file", digest, name)
	}
	return text, nil
}

// mayReadAll asks Consul whether the caller may read every group that the call concerns.
func (w *written) mayReadAll(ctx context.Context) error {
	for _, name := range w.names() {
		if err := w.mayAsk(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// names are the groups of the document and of the present version.
func (w *written) names() []string {
	out := w.present.Names()
	for _, e := range w.edits {
		if group.NameProblem(e.name) == "" {
			out = append(out, e.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leaving are the groups of the present version that the document leaves out.
func (w *written) leaving() []string {
	return slices.DeleteFunc(w.present.Names(), func(name string) bool {
		return slices.ContainsFunc(w.edits, func(e *edit) bool { return e.name == name })
	})
}

// judge decides about the whole document, and fails with all problems.
func (w *written) judge(ctx context.Context) error {
	problems, err := w.problems(ctx)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		code := specvalidate.Code(&group.ValidationError{Problems: problems})
		return status.Error(codes.InvalidArgument, string(code)+": "+deployment.Error(w.record.Name, problems).Error())
	}
	var refusals []string
	first := codes.OK
	for _, e := range w.edits {
		err := w.judgeEdit(ctx, e)
		if err == nil {
			continue
		}
		if first == codes.OK {
			first = status.Code(err)
		}
		refusals = append(refusals, fmt.Sprintf("group[%q]: %s", e.name, status.Convert(err).Message()))
	}
	if len(refusals) > 0 {
		return status.Error(first, strings.Join(refusals, "; "))
	}
	return nil
}

// problems are those of the documents' content.
func (w *written) problems(ctx context.Context) ([]group.Problem, error) {
	doc := deployment.Document{Name: w.record.Name, Labels: w.labels}
	byName, size := map[string]*edit{}, 0
	for _, e := range w.edits {
		doc.Groups = append(doc.Groups, e.spec)
		byName[e.name] = e
		size += len(e.raw)
	}
	if size > deployment.MaxBytes { // escapes may make a text longer than its meaning
		return []group.Problem{{Path: "group", Message: fmt.Sprintf("the specs have %d bytes together, at most %d are allowed: one transaction of Consul writes them all; split the document", size, deployment.MaxBytes)}}, nil
	}
	known := map[string][]string{}
	for _, name := range w.view.Known() {
		known[name] = nil
	}
	maps.Copy(known, w.view.AfterUpTo(math.MaxUint64))
	out := deployment.Validate(doc, func(spec group.Spec) error {
		if wrong := byName[spec.Name].wrong; wrong != nil {
			return wrong
		}
		return w.server.cfg.Validator.Edit(w.view, spec, doc.Groups...)
	}, known)
	taken, err := w.takenBy(ctx)
	for _, spec := range doc.Groups {
		if other, is := taken[spec.Name]; is {
			out = append(out, deployment.In(spec.Name, []group.Problem{{Rule: "NAME_TAKEN", Message: fmt.Sprintf("belongs to the deployment %q: use another name, or apply that deployment without the group first", other)}})...)
		}
	}
	return out, err
}

// takenBy returns by group the other deployment that has it. It fails while a record is unreadable, if the call takes a
// group in: the group might belong to that deployment, whose next apply would overwrite it.
func (w *written) takenBy(ctx context.Context) (map[string]string, error) {
	takesIn := slices.ContainsFunc(w.edits, func(e *edit) bool {
		_, joined := w.present.Groups[e.name]
		return !joined
	})
	others, _, err := store.ReadAll[deployment.Record](ctx, w.server.cfg.Store, store.DeploymentsPrefix)
	switch unread := store.RecordErrors(err); {
	case err != nil && len(unread) == 0:
		return nil, wire(err)
	case len(unread) > 0 && takesIn:
		var texts []string
		for _, one := range unread {
			texts = append(texts, one.Error())
		}
		return nil, status.Errorf(codes.FailedPrecondition, "%s: %s: it is unknown which groups that deployment has, so none joins another deployment: repair the named key, or delete it and apply its document again", policy.CodeGateUnreadable, strings.Join(texts, "; "))
	}
	out := map[string]string{}
	for _, other := range others {
		present, _ := other.Value.Present()
		for _, name := range present.Names() {
			if other.Value.Name != w.record.Name {
				out[name] = other.Value.Name
			}
		}
	}
	return out, nil
}

// judgeEdit compares the edit with the stored spec. It rejects the edit for the reasons that reject a lone apply. An
// undo also rejects a Revision that may not be rolled out.
func (w *written) judgeEdit(ctx context.Context, e *edit) error {
	old, index, err := store.ReadRaw(ctx, w.store, store.GroupSpecKey(e.name))
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrTooLarge) {
		return wire(err)
	}
	e.index, e.same = index, index != 0 && sameSpec(old, e.spec)
	if err := w.caller.expected(ctx, &apiv1.ApplyGroupRequest{ExpectedIndex: e.want, ExpectAbsent: e.absent}, e.name, index, e.same); err != nil {
		return err
	}
	if e.warnings, err = w.editWarnings(e.spec); err != nil {
		return err
	}
	before, unread := view.DecodeSpec(old, e.name)
	if unread == nil {
		e.warnings = append(e.warnings, group.EditWarnings(before, e.spec)...)
	}
	_, joined := w.present.Groups[e.name]
	// Of two deployments that take a group in at the same time, one must lose its check-and-set.
	e.write, e.text = !e.same || !joined, e.raw
	if bytes.Equal(old, e.raw) { // Consul keeps the index of an unchanged value, and the other call would pass
		e.text = append(bytes.Clone(e.raw), '\n')
	}
	if stale := w.wantedAgain(e.spec); stale != nil && e.write {
		e.with = append(e.with, *stale)
	}
	if w.of == 0 || e.same || unread == nil && before.Revision() == e.spec.Revision() {
		return nil
	}
	revision := e.spec.Revision()
	if d := w.view.Gate.Groups[e.name].Value.Judge(revision, group.Content(e.spec.Template), w.view.Revisions[revision].Value.ComposeHash); !d.Allowed && d.Code != policy.CodeRevisionNotApproved {
		return status.Errorf(codes.FailedPrecondition, "%s: %s: undo to another version, or apply a file", d.Code, d.Message)
	} else if !d.Allowed {
		e.warnings = append(e.warnings, fmt.Sprintf("it is not rolled out: %s: %s", d.Code, d.Message))
	}
	return nil
}

// next is the version that the call would write.
func (w *written) next() deployment.Version {
	v := deployment.Version{
		By: truncate.Text(w.by, store.MaxBy), At: w.now(), Request: w.request, Reason: truncate.Text(w.reason, store.MaxReason), Of: w.of,
		Labels: w.labels, Groups: map[string]string{},
	}
	for _, e := range w.edits {
		v.Groups[e.name] = e.digest
	}
	return v
}

// commit writes the contents of the version, then moves the record and all specs in one transaction, and
// then removes contents that no version refers to. A crash between the steps leaves such contents, which the
// next call removes.
func (w *written) commit(ctx context.Context, record deployment.Record) error {
	for _, name := range w.names() {
		if slices.Contains(w.leaving(), name) && !slices.Contains(w.view.Known(), name) {
			continue // it is gone
		}
		if err := w.server.allowed(ctx, w.token, name, store.GroupSpecKey(name)); err != nil {
			return wire(fmt.Errorf("write the spec of group %s: %w", name, err))
		}
	}
	stale, err := w.unreferenced(ctx, record)
	if err != nil {
		return err
	}
	version, _ := record.Present()
	var contents, ops []store.Op
	for _, e := range w.edits {
		// An unreferenced content is written again, even where it exists: a new index saves it from a
		// removal by another call. Consul keeps the index of an unchanged value, so it is removed first.
		if key := store.DeploymentSpecKey(record.Name, e.digest); !w.record.Refers(e.digest) {
			contents = append(contents, store.Op{Kind: store.OpDelete, Key: key}, store.Op{Kind: store.OpPut, Key: key, Value: e.raw})
		}
		if !e.write {
			continue
		}
		applied, err := store.Put(store.AppliedKey(e.name), store.Applied{Group: e.name, By: version.By, Request: version.Request, At: version.At}, 0)
		if err != nil {
			return wire(err)
		}
		applied.Kind = store.OpPut
		ops = append(ops, store.Op{Kind: store.OpPutCAS, Key: store.GroupSpecKey(e.name), Value: e.text, Index: e.index}, applied,
			store.Op{Kind: store.OpCheckAbsent, Key: store.DeleteGroupKey(e.name)})
		ops = append(ops, e.with...)
	}
	put, err := store.Put(store.DeploymentKey(record.Name), record, w.index)
	if err != nil {
		return wire(err)
	}
	verb := "apply-deployment"
	if w.of != 0 {
		verb = "undo-deployment"
	}
	note := w.note(verb, w.request, w.reason)
	ops = append([]store.Op{store.Noted(put, note)}, ops...)
	if !store.Fit(store.NoteAll(note, ops...)...) {
		return status.Error(codes.FailedPrecondition, "the change is too large for one transaction, since it also takes back permissions to delete disks: apply some of the groups alone first")
	}
	if denied, err := w.server.mayNotWrite(ctx, w.token, withKeys(w.edits)); err != nil || denied != "" {
		return wire(cmp.Or(err, fmt.Errorf("%w: the token may not write %s", store.ErrDenied, denied)))
	}
	if len(contents) > 0 { // at most MaxGroups pairs and MaxBytes, so one transaction
		if err := w.server.cfg.Store.Commit(ctx, contents...); err != nil {
			return wire(err)
		}
	}
	err = w.enter(ctx, verb, w.request, w.reason, ops...)
	if errors.Is(err, store.ErrConflict) {
		return status.Error(codes.Aborted, string(policy.CodeSpecConflict)+": the deployment or one of its groups was changed, or is being deleted, at the same time; read it again")
	}
	if err != nil {
		return wire(err)
	}
	w.server.cfg.Log.Info("deployment applied", "deployment", record.Name, "version", version.Number, "of", w.of, "by", version.By, "request", version.Request)
	for _, e := range w.edits {
		w.server.cfg.Views.Hint(e.name)
	}
	w.collect(ctx, record.Name, stale)
	return nil
}

// withKeys lists the keys of the further Ops of the edits.
func withKeys(edits []*edit) (keys []string) {
	for _, e := range edits {
		keys = append(keys, keysOf(e.with)...)
	}
	return keys
}

// unreferenced are the removals of contents that no version of record refers to, each at the index of this
// read: a content that another call writes again from now on stays.
func (w *written) unreferenced(ctx context.Context, record deployment.Record) ([]store.Op, error) {
	prefix := store.DeploymentSpecsOf(record.Name)
	entries, _, err := w.server.cfg.Store.List(ctx, prefix)
	if err != nil {
		return nil, wire(err)
	}
	var out []store.Op
	for _, entry := range entries {
		if !record.Refers(strings.TrimPrefix(entry.Key, prefix)) {
			out = append(out, store.Op{Kind: store.OpDeleteCAS, Key: entry.Key, Index: entry.Index})
		}
	}
	return out, nil
}

// collect removes contents. The version is written already, so a failure is logged, and the next call repeats it.
func (w *written) collect(ctx context.Context, name string, stale []store.Op) {
	for _, op := range stale {
		if err := w.server.cfg.Store.Commit(ctx, op); err != nil && !errors.Is(err, store.ErrConflict) {
			w.server.cfg.Log.Warn("a spec of an earlier version is not removed", "deployment", name, "key", op.Key, "error", err)
		}
	}
}

// answer is the outcome for one group.
func (w *written) answer(ctx context.Context, e *edit, dry bool) *apiv1.DeploymentEdit {
	out := &apiv1.DeploymentEdit{Group: e.name, Changed: !e.same, Index: e.index, Revision: e.spec.Revision(), Warnings: e.warnings, SpecJson: e.raw}
	out.LeavingSlots, out.HeldDisks = w.caller.leaving(e.spec)
	if e.write && !dry {
		// Without the read the wait of a caller begins at the earlier spec, and ends later all the same.
		if entry, err := w.server.cfg.Store.Get(ctx, store.GroupSpecKey(e.name)); err == nil && bytes.Equal(entry.Value, e.text) {
			out.Index = entry.Index
		}
	}
	return out
}

// decoded returns the specs of a version's groups for the wire, and the groups whose stored spec differs.
func (c *caller) decoded(ctx context.Context, name string, v deployment.Version) (groups []*apiv1.DeploymentGroup, drifted []string, err error) {
	for _, g := range v.Names() {
		text, err := c.server.specOf(ctx, name, v.Groups[g])
		if err != nil {
			return nil, nil, err
		}
		groups = append(groups, &apiv1.DeploymentGroup{Group: g, SpecJson: text, ExpectedIndex: c.view.Specs[g].Index})
		spec, err := group.Decode(text)
		spec.Normalize()
		if err != nil || !sameSpec(c.view.Specs[g].Raw, spec) {
			drifted = append(drifted, g)
		}
	}
	return groups, drifted, nil
}
