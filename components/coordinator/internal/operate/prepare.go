package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// prepared is the preparation of one Operation: the document that was judged, and the platform's
// answer to it.
type prepared struct {
	// revision is the Operation's To; a newer spec may change it.
	revision string
	// text is the app-compose.json whose hash may be allowed. hash is computed here and not taken
	// from the platform.
	text []byte
	hash string
	// content is the template that the text was judged against.
	content     group.Template
	provisioned platform.Provisioned
	template    platform.Template
	// newApp: the Create makes the app that was provisioned.
	newApp bool
	// document is the record of the text after its check; nil: not checked yet.
	document []byte
	at       time.Time
}

func (o *Operator) preparedFor(op operation.Operation) (prepared, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// No caller asks about an Operation again that another leader ends, so entries expire.
	maps.DeleteFunc(o.prepared, func(_ string, p prepared) bool { return o.cfg.Now().Sub(p.at) >= provisionedFor })
	p, ok := o.prepared[op.ID]
	return p, ok && p.revision == op.To
}

// prepare meets the conditions of the irreversible call. The platform knows the content, and the
// Slot's policy allows it, so that the new Boot will be admitted. A failure here disturbs no member
// (R74) and only delays the call. The call reads the writes of prepare again, so the pass goes on.
func (o *Operator) prepare(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen, op operation.Operation, facts *operation.Facts) error {
	if op.Phase != operation.Drained && op.Phase != operation.Acting {
		return nil
	}
	if op.CallsOff(*facts) || op.Undoes() {
		return nil // the platform is not asked, and no policy allows the Revision
	}
	hold := func(format string, args ...any) {
		facts.Safe, facts.SafeReason = false, fmt.Sprintf(format, args...)
	}
	switch op.Kind {
	case operation.Delete, operation.Drain:
		return nil // no Boot follows
	case operation.Restart, operation.Stop:
		if allowed, ok := allowedIn(v.Policies[op.Slot].Value, op.To); ok {
			facts.WantedHash = allowed.ComposeHash
		}
		return nil
	case operation.Create, operation.Update, operation.Replace:
	}
	if op.Phase == operation.Acting {
		if allowed, ok := allowedIn(v.Policies[op.Slot].Value, op.To); ok {
			facts.WantedHash = allowed.ComposeHash
		}
		// Only a call that may be repeated needs preparing.
		makes := op.Kind == operation.Create || op.Call.Part == operation.PartCreate
		if facts.Call != nil || makes && facts.Platform != nil {
			return nil
		}
	}
	if d := mayRun(v, seen, op, v.Revisions[op.To].Value.ComposeHash); !d.Allowed {
		// The floor, a revocation or a withdrawn approval came after the plan: the Boot would be
		// refused.
		hold("%s: %s", d.Code, d.Message)
		return nil
	}
	if reason := o.sizeRefused(v, seen, op); reason != "" {
		hold("blocked(precondition): %s", reason)
		facts.Unmet, facts.Refused = true, facts.SafeReason
		return nil
	}
	p, ok := o.preparedFor(op)
	if !ok {
		var err error
		if p, err = o.provision(ctx, v, seen, op); err != nil {
			hold("blocked(precondition): %v", err)
			if facts.Unmet = true; refusal(err) != "" {
				facts.Refused = facts.SafeReason // waiting would keep the member out of service in vain
			}
			return nil
		}
	}
	facts.WantedHash = p.hash
	_, err := o.keep(ctx, lease, v, op.Group, op.To, &p)
	o.mu.Lock()
	o.prepared[op.ID] = p
	o.mu.Unlock()
	if err != nil {
		return err
	}
	// Approvals and revocations name this hash, which was not known before.
	if d := mayRun(v, seen, op, p.hash); !d.Allowed {
		hold("%s: %s", d.Code, d.Message)
		return nil
	}
	return o.allow(ctx, lease, v, op, p)
}

// mayRun judges the Revision of an Operation by its expected hash; "" while the hash is unknown.
func mayRun(v *view.View, seen observe.Seen, op operation.Operation, composeHash string) policy.Decision {
	gate, ok := v.Gate.Groups[op.Group]
	if !ok {
		return policy.Decision{Code: policy.CodeGateUnreadable, Message: "the policy of the group is not recorded yet"}
	}
	t, _ := templateOf(v, seen.Spec, op.To)
	return gate.Value.Judge(op.To, group.Content(t), composeHash)
}

// provision renders the document, asks the platform for its measurement, and accepts only the
// judged bytes. It has no effect on any CVM.
func (o *Operator) provision(ctx context.Context, v *view.View, seen observe.Seen, op operation.Operation) (_ prepared, err error) {
	template, ok := templateOf(v, seen.Spec, op.To)
	if !ok {
		return prepared{}, fmt.Errorf("the content of revision %s is not recorded", op.To)
	}
	text, err := o.cfg.Measure.Render(seen.Spec.Name, template)
	if err != nil {
		return prepared{}, fmt.Errorf("render app-compose.json: %w", err)
	}
	p := prepared{revision: op.To, content: template, template: platformTemplate(template, text), at: o.cfg.Now()}
	vm := op.CVM.VMUUID
	app := appOf(seen)
	if op.Kind == operation.Create || op.Kind == operation.Replace {
		if vm, p.newApp, err = o.throughFor(seen, app); err != nil {
			return prepared{}, err
		}
		switch {
		case vm == "" && !p.newApp:
			p.template.AppID = app
		case p.newApp && seen.Spec.AppID != "":
			p.template.AppID = seen.Spec.AppID
		}
	}
	// A spec that names the coordinators' app is refused long before. Records and the platform's
	// list may name it too (IDN-07).
	if err := o.notOwn(seen.Spec.AppID, app, appOfCVM(seen, vm)); err != nil {
		return prepared{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, defaultProvisionTime)
	defer cancel()
	if err := o.sizeOffered(ctx, v, seen, op); err != nil {
		return prepared{}, err // no reason against the Revision
	}
	defer func() {
		if err != nil || vm != "" || !o.cfg.Timing.StopFirst {
			o.judged(op.To, err)
		} // otherwise the hosts of the present CVMs were not asked
	}()
	names := p.template
	if size := apartOf(v, seen, op, template); size != "" && !o.sizesApp(p) {
		p.template.InstanceType, names.InstanceType = size, ""
	}
	if err := o.offered(ctx, seen, vm, names); err != nil {
		return prepared{}, err
	}
	provisioned, err := o.cfg.Platform.Provision(ctx, vm, p.template)
	if err != nil {
		return prepared{}, err
	}
	if p.text, err = o.cfg.Measure.Settle(seen.Spec.Name, template, text, provisioned); err != nil {
		return prepared{}, err
	}
	p.hash, p.provisioned = appcompose.Hash(p.text), provisioned
	p.provisioned.ComposeHash = p.hash
	if p.provisioned.AppID == "" {
		p.provisioned.AppID = app
	}
	if p.provisioned.AppID == "" {
		return prepared{}, errors.New("the platform named no app")
	}
	if err := o.notOwn(p.provisioned.AppID); err != nil {
		return prepared{}, fmt.Errorf("the platform's answer: %w", err)
	}
	return p, nil
}

// sizesApp: the Create gives its size to the app, and each later CVM of the app gets that size. The size of its
// own Create is ignored. A new app therefore has the size of the template, and a step gives the Slot its own
// size afterwards. On own hosts each Create decides about its CVM.
func (o *Operator) sizesApp(p prepared) bool { return p.newApp && !o.cfg.Timing.StopFirst }

// throughFor is how the platform is asked about a new CVM in the group's app: through the CVM vm, or through none. newApp:
// no CVM was made in the app. On own hosts no CVM is named, since the image of its host says nothing about the host of
// the new CVM, and the app of the records is kept when all CVMs are gone.
func (o *Operator) throughFor(seen observe.Seen, app string) (vm string, newApp bool, err error) {
	vm = anyInstance(seen, app)
	if !o.cfg.Timing.StopFirst {
		return vm, vm == "", nil
	}
	recorded := slices.ContainsFunc(seen.Records.Slots, func(s group.SlotRecord) bool { return app != "" && s.AppID == app })
	if newApp = vm == "" && !recorded; newApp && len(seen.Now.SilentNodes) > 0 {
		return "", false, fmt.Errorf("a new app needs the answer of every node, and none comes from %s", names.Few(seen.Now.SilentNodes, ", "))
	}
	return "", newApp, nil
}

// judged remembers a refused Revision until the platform accepts it. The refusal concerns its
// document, or a name that the platform does not offer. A missing answer, or an error for another
// reason, changes nothing.
func (o *Operator) judged(revision string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reason := refusal(err); reason != "" {
		o.refused[revision] = reason
	} else if err == nil {
		delete(o.refused, revision)
	}
}

// refusal is why the Revision is certainly refused; "": it is not, or that is unknown.
func refusal(err error) string {
	document, refused := errors.AsType[*appcompose.Refusal](err)
	switch {
	case refused:
		return document.Reason
	case errors.Is(err, platform.ErrMeasuresOther), errors.Is(err, platform.ErrNotOffered):
		return err.Error()
	}
	return ""
}

// Refused is, by Revision, why no step may lead to it now. The platform would measure a document
// that was not judged or was judged unfit, or lacks the image or the instance type. Unknown
// Revisions are left out. A step to a refused Revision would drain a member for an impossible call.
func (o *Operator) Refused() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.refused)
}

// notOwn refuses the coordinators' own app among apps.
func (o *Operator) notOwn(apps ...string) error {
	for _, app := range apps {
		if err := o.cfg.Validator.App(app); err != nil {
			return err
		}
	}
	return nil
}

// allow adds the Revision to the Slot's policy. The present Revision stays allowed until the
// Operation ends.
func (o *Operator) allow(ctx context.Context, lease store.Lease, v *view.View, op operation.Operation, p prepared) error {
	before := v.Policies[op.Slot]
	after := before.Value
	after.Group, after.Slot = op.Group, op.Slot
	if after.InstanceID == "" {
		after.AppID = p.provisioned.AppID
	}
	wanted := rollout.AllowedAs(op.To, p.content, p.hash)
	wanted.Refresh = op.Way.Refreshes()
	changed, err := o.putPolicy(ctx, lease, v, before, after.Moving(op.From, wanted), op.Way.Refreshes())
	if err != nil {
		return err
	}
	if changed {
		o.cfg.Log.Info("revision allowed", "group", op.Group, "slot", op.Slot, "operation", op.ID, "revision", op.To,
			"compose_hash", wanted.ComposeHash, "term", lease.Term())
	}
	return nil
}

// putPolicy writes the policy of a Slot, with the operators' approvals, revocations and floor. The
// Epoch grows when the admitted Boot might lose a permission, or when it must attest again.
func (o *Operator) putPolicy(ctx context.Context, lease store.Lease, v *view.View, before view.Rec[policy.SlotPolicy], after policy.SlotPolicy, again bool) (changed bool, err error) {
	after = v.Folded(after)
	if before.Index != 0 && samePolicy(before.Value, after) {
		return false, nil
	}
	after.Epoch, after.Term = before.Value.Epoch, lease.Term()
	if again || before.Index == 0 || policy.Narrows(before.Value, after, v.Admissions[after.Slot].Value.Revision) {
		after.Epoch++
	}
	put, err := store.Put(store.SlotPolicyKey(after.Slot), after, before.Index)
	if err != nil {
		return false, err
	}
	if err := o.cfg.Store.Commit(ctx, append(lease.Fence(), put)...); err != nil {
		return false, fmt.Errorf("write policy of %s: %w", after.Slot, err)
	}
	return true, nil
}

func samePolicy(a, b policy.SlotPolicy) bool {
	return a.Group == b.Group && a.Slot == b.Slot && a.AppID == b.AppID && a.InstanceID == b.InstanceID &&
		a.RequireApproval == b.RequireApproval && a.Floor == b.Floor && slices.Equal(a.Allowed, b.Allowed) &&
		slices.EqualFunc(a.Revoked, b.Revoked, func(x, y policy.Revocation) bool {
			// An operator's record may carry any time zone: equal times are equal.
			at := x.At.Equal(y.At)
			x.At = y.At
			return at && x == y
		})
}

func allowedIn(p policy.SlotPolicy, revision string) (policy.AllowedRevision, bool) {
	for _, a := range slices.Backward(p.Allowed) {
		if a.Revision == revision {
			return a, true
		}
	}
	return policy.AllowedRevision{}, false
}

func platformTemplate(t group.Template, appCompose []byte) platform.Template {
	return platform.Template{
		AppCompose: appCompose, Env: t.Env,
		InstanceType: t.InstanceType, OSImage: t.OSImage, DiskGB: t.DiskGB,
	}
}

// templateOf is the content of a Revision, from its record or from the spec.
func templateOf(v *view.View, spec group.Spec, revision string) (group.Template, bool) {
	if r, ok := v.Revisions[revision]; ok {
		return r.Value.Template, true
	}
	if spec.Revision() == revision {
		return spec.Template, true
	}
	return group.Template{}, false
}

// appOf is the group's app, from the spec or from a known CVM.
func appOf(seen observe.Seen) string {
	if seen.Spec.AppID != "" {
		return seen.Spec.AppID
	}
	for _, s := range seen.Records.Slots {
		if s.AppID != "" {
			return s.AppID
		}
	}
	for _, s := range seen.Now.Slots {
		if s.Instance != nil && s.Instance.AppID != "" {
			return s.Instance.AppID
		}
	}
	return ""
}

// anyInstance is a CVM of the app; the platform provisions an app through it.
func anyInstance(seen observe.Seen, app string) string {
	for _, i := range seen.Listing.Instances {
		if app != "" && i.AppID == app && i.VMUUID != "" {
			return i.VMUUID
		}
	}
	return ""
}

// appOfCVM is the app of a CVM in the platform's list; empty: the list does not name it.
func appOfCVM(seen observe.Seen, vm string) string {
	for _, i := range seen.Listing.Instances {
		if vm != "" && cmp.Or(i.VMUUID, i.ID) == vm {
			return i.AppID
		}
	}
	return ""
}
