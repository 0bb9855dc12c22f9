package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/platform"
)

// Verb of a call with an effect.
type Verb string

// Verbs.
const (
	Create  Verb = "create"
	Update  Verb = "update"
	Image   Verb = "os-image"
	Resize  Verb = "resize"
	Restart Verb = "restart"
	Start   Verb = "start"
	Stop    Verb = "stop"
	Delete  Verb = "delete"
)

// Call is a call with an effect, about one CVM.
type Call struct {
	Verb Verb
	// Name and VMUUID of the CVM; for a create, its future VMUUID.
	Name, VMUUID string
	// Hash of the CVM's next document; empty: the document stays.
	Hash string
}

// Carry carries a call to the cloud and the answer back. It runs effect under the lock once, now or
// later, or never. The result of effect is the honest answer, and the caller gets the result of
// Carry.
type Carry func(ctx context.Context, call Call, effect func() error) error

// Link is one client's connection to the cloud.
type Link[G Guest] struct {
	*Cloud[G]

	carry Carry
}

// Link returns a connection.
func (c *Cloud[G]) Link(carry Carry) *Link[G] { return &Link[G]{Cloud: c, carry: carry} }

// AppOf returns the app that the cloud creates for a document, by its group's name.
func AppOf(document []byte) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(document, &named) // a document without a name has an app without one
	sum := sha256.Sum256([]byte(named.Name))
	return hex.EncodeToString(sum[:20])
}

// List implements [platform.Platform].
func (l *Link[G]) List(_ context.Context, appID string) ([]platform.Instance, error) {
	l.cfg.Lock.Lock()
	defer l.cfg.Lock.Unlock()
	var out []platform.Instance
	for _, one := range l.AllLocked() {
		if appID == "" || one.AppID == appID {
			out = append(out, one.Instance)
		}
	}
	return out, nil
}

// Describe implements [platform.Platform].
func (l *Link[G]) Describe(_ context.Context, vmUUID string) (platform.Instance, error) {
	l.cfg.Lock.Lock()
	defer l.cfg.Lock.Unlock()
	if one := l.byIDLocked(vmUUID); one != nil {
		return one.Instance, nil
	}
	return platform.Instance{}, platform.ErrNotFound
}

// Provision implements [platform.Platform]: it measures the received document.
func (l *Link[G]) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	sum := sha256.Sum256(t.AppCompose)
	p := platform.Provisioned{ComposeHash: hex.EncodeToString(sum[:]), AppID: AppOf(t.AppCompose)}
	l.cfg.Lock.Lock()
	l.documents[p.ComposeHash] = slices.Clone(t.AppCompose)
	l.cfg.Lock.Unlock()
	if vmUUID == "" {
		return p, nil
	}
	_, err := l.Describe(ctx, vmUUID)
	return p, err
}

// Create implements [platform.Platform].
func (l *Link[G]) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	l.cfg.Lock.Lock()
	l.asked++
	one := &CVM[G]{Env: req.Template.Env, Instance: platform.Instance{
		InstanceType: req.Template.InstanceType, OSImage: req.Template.OSImage, DiskGB: req.Template.DiskGB,
		Name: req.Name, VMUUID: fmt.Sprintf("vm-%d", l.asked), InstanceID: fmt.Sprintf("%040d", 100+l.asked), AppID: req.Provisioned.AppID, Node: req.Node,
	}}
	one.Guest = l.cfg.Guest(one)
	l.cfg.Lock.Unlock()
	err := l.carry(ctx, Call{Verb: Create, Name: one.Name, VMUUID: one.VMUUID, Hash: req.Provisioned.ComposeHash}, func() error {
		if l.cvms[one.Name] != nil {
			return fmt.Errorf("%w: 409: a CVM of that name exists", platform.ErrRefused)
		}
		if !l.cfg.StopFirst {
			l.sizeLocked(one, req.AppID == "")
		}
		l.cvms[one.Name], l.sorted = one, nil
		l.bootLocked(one, req.Provisioned.ComposeHash)
		return nil
	})
	if err != nil {
		return platform.Instance{}, err
	}
	l.cfg.Lock.Lock()
	defer l.cfg.Lock.Unlock()
	return one.Instance, nil
}

// sizeLocked gives a new CVM the size of its app, as the hosted platform does: the call for a CVM in an
// existing app has no size.
func (l *Link[G]) sizeLocked(one *CVM[G], newApp bool) {
	if size, known := l.sizes[one.AppID]; known && !newApp {
		one.InstanceType = size
		return
	}
	l.sizes[one.AppID] = one.InstanceType
}

// Update implements [platform.Platform].
func (l *Link[G]) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	return l.change(ctx, Call{Verb: Update, VMUUID: req.VMUUID, Hash: req.ComposeHash}, func(one *CVM[G]) error {
		one.Env = req.Env
		if !l.cfg.StopFirst {
			l.ChangeLocked(one, req.ComposeHash)
			return nil
		}
		one.next = req.ComposeHash // a host writes the document before it finds that the CVM runs
		if one.Status != Stopped || one.InProgress {
			return fmt.Errorf("%w: the CVM must be stopped", platform.ErrBusy)
		}
		one.reshape(req.Shape)
		l.ChangeLocked(one, req.ComposeHash)
		return nil
	})
}

// reshape gives the CVM the known fields of a shape.
func (one *CVM[G]) reshape(s platform.Shape) {
	one.InstanceType, one.OSImage, one.DiskGB = cmp.Or(s.InstanceType, one.InstanceType), cmp.Or(s.OSImage, one.OSImage), cmp.Or(s.DiskGB, one.DiskGB)
}

// SetOSImage implements [platform.Platform].
func (l *Link[G]) SetOSImage(ctx context.Context, vmUUID, image string) (platform.Accepted, error) {
	return l.reboots(ctx, Call{Verb: Image, VMUUID: vmUUID}, func(one *CVM[G]) {
		one.OSImage = image
		l.ChangeLocked(one, one.next)
	})
}

// Resize implements [platform.Platform].
func (l *Link[G]) Resize(ctx context.Context, vmUUID string, s platform.Shape) (platform.Accepted, error) {
	s.OSImage = "" // the image stays, as on an older server
	return l.reboots(ctx, Call{Verb: Resize, VMUUID: vmUUID}, func(one *CVM[G]) {
		one.reshape(s)
		l.ChangeLocked(one, one.next)
	})
}

// Restart implements [platform.Platform].
func (l *Link[G]) Restart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.reboots(ctx, Call{Verb: Restart, VMUUID: vmUUID}, l.RebootLocked)
}

// reboots is a call that a host of dstack-vmm does not have.
func (l *Link[G]) reboots(ctx context.Context, call Call, apply func(*CVM[G])) (platform.Accepted, error) {
	if l.cfg.StopFirst {
		return platform.Accepted{}, fmt.Errorf("%w: no such call", platform.ErrRefused)
	}
	return l.change(ctx, call, func(one *CVM[G]) error { apply(one); return nil })
}

// ForceRestart is a Restart: no guest of this cloud refuses to shut down.
func (l *Link[G]) ForceRestart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.Restart(ctx, vmUUID)
}

// Start boots a stopped CVM; a running CVM continues.
func (l *Link[G]) Start(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.change(ctx, Call{Verb: Start, VMUUID: vmUUID}, func(one *CVM[G]) error {
		if !one.Running() && !one.InProgress {
			l.RebootLocked(one)
		}
		return nil
	})
}

// Stop halts a CVM: no guest of this cloud refuses to shut down.
func (l *Link[G]) Stop(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.change(ctx, Call{Verb: Stop, VMUUID: vmUUID}, func(one *CVM[G]) error {
		if one.Status != Stopped || one.InProgress {
			l.HaltLocked(one)
		}
		return nil
	})
}

// ForceStop is a Stop.
func (l *Link[G]) ForceStop(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.Stop(ctx, vmUUID)
}

// Delete implements [platform.Platform].
func (l *Link[G]) Delete(ctx context.Context, vmUUID string) error {
	_, err := l.change(ctx, Call{Verb: Delete, VMUUID: vmUUID}, func(one *CVM[G]) error { l.RemoveLocked(one, Deleted); return nil })
	if errors.Is(err, platform.ErrNotFound) {
		return nil
	}
	return err
}

// change is a call about an existing CVM.
func (l *Link[G]) change(ctx context.Context, call Call, apply func(*CVM[G]) error) (platform.Accepted, error) {
	l.cfg.Lock.Lock()
	one := l.byIDLocked(call.VMUUID)
	l.cfg.Lock.Unlock()
	if one == nil {
		return platform.Accepted{}, platform.ErrNotFound
	}
	call.Name = one.Name
	return platform.Accepted{}, l.carry(ctx, call, func() error {
		if l.cvms[one.Name] != one {
			return platform.ErrNotFound
		}
		return apply(one)
	})
}

// Nodes returns none.
func (l *Link[G]) Nodes(context.Context) ([]platform.Node, error) { return nil, nil }

// Offer returns an empty offer.
func (l *Link[G]) Offer(context.Context) (platform.Offer, error) { return platform.Offer{}, nil }

// Habits implements [platform.Platform].
func (l *Link[G]) Habits() platform.Habits {
	return platform.Habits{Settle: l.cfg.Settle, StopFirst: l.cfg.StopFirst}
}
