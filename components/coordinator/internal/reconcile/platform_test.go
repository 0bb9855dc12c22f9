package reconcile_test

import (
	"context"
	"slices"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/platform"
)

// link is the coordinators' connection to the platform.
type link struct {
	*cloud.Link[*member]
	w *world
}

var _ platform.Platform = link{}

// carry makes the call fail as the test requires.
func (w *world) carry(_ context.Context, call cloud.Call, effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(call.Verb) + " " + call.Name
	w.calls = append(w.calls, text)
	w.check(call)
	if w.fault == nil {
		return effect()
	}
	do, err := w.fault(text)
	switch {
	case do:
		_ = effect() // the fault is the answer
	case w.late > 0:
		time.AfterFunc(w.late, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			_ = effect() // no caller waits for the answer any more
		})
	}
	return err
}

// check: no pass ever makes these calls.
func (w *world) check(call cloud.Call) {
	there := w.cloud.NamedLocked(call.Name)
	switch {
	case call.Verb == cloud.Create && there != nil:
		w.t.Errorf("%s created twice", call.Name)
	case there == nil:
	case there.AppID == ownApp:
		w.t.Errorf("%s in the coordinators' own app", call.Verb)
	case slices.Contains([]cloud.Verb{cloud.Update, cloud.Image, cloud.Resize}, call.Verb) && w.leader == there.Guest.slot:
		w.t.Errorf("%s changes by %s while it leads", call.Name, call.Verb)
	}
}

// mustNotBeOwn: no content reaches the coordinators' app.
func (l link) mustNotBeOwn(call string, apps ...string) {
	if slices.Contains(apps, ownApp) {
		l.w.t.Errorf("%s in the coordinators' own app", call)
	}
}

func (l link) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	l.w.mu.Lock()
	l.w.listed++
	l.w.mu.Unlock()
	return l.Link.List(ctx, appID)
}

func (l link) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	l.mustNotBeOwn("provision", t.AppID)
	if there, err := l.Describe(ctx, vmUUID); err == nil {
		l.mustNotBeOwn("provision through "+there.Name, there.AppID)
	}
	p, err := l.Link.Provision(ctx, vmUUID, t)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.measureError != nil {
		return platform.Provisioned{}, l.w.measureError
	}
	if l.w.answer != nil && err == nil {
		l.w.answer(t, &p)
	}
	return p, err
}

func (l link) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	l.mustNotBeOwn("create", req.AppID, req.Provisioned.AppID, req.Template.AppID)
	l.w.placed(ctx, req)
	return l.Link.Create(ctx, req)
}

func (l link) Offer(context.Context) (platform.Offer, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.offersAsked++
	return l.w.offer, nil
}

func (l link) Habits() platform.Habits { return platform.Habits{Settle: l.w.settle} }
