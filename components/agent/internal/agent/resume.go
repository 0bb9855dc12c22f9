package agent

import (
	"context"
	"errors"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/workloadfiles"
)

// resumed is the state of an earlier process of this Boot, read and checked.
type resumed struct {
	admitted admit.Admitted
	config   []byte
}

// resume reads the state of an earlier process of this Boot. If it is nil, this process requests
// admission.
func (a *Agent) resume() *resumed {
	state, err := a.credcache.Load()
	if state == nil {
		if err != nil {
			a.cfg.Log.Info("the boot requests admission", "error", err)
		}
		return nil
	}
	admitted, err := a.admit.Resume(*state)
	if err != nil {
		a.cfg.Log.Warn("the boot requests admission again", "error", errors.Join(err, a.credcache.Remove()))
		return nil
	}
	a.bootAt = state.BootAt
	return &resumed{admitted: admitted, config: state.Config}
}

func (a *Agent) openMesh() (*workloadfiles.Folder, error) {
	if a.resumed != nil {
		return workloadfiles.OpenAgain(a.cfg.MeshDir, a.cfg.MeshGID, a.cfg.ExecBinary)
	}
	return workloadfiles.Open(a.cfg.MeshDir, a.cfg.MeshGID, a.cfg.ExecBinary)
}

// first returns the credentials that this process begins with: the Boot's own, or new ones.
func (a *Agent) first(ctx context.Context) (admit.Admitted, error) {
	if r := a.resumed; r != nil {
		a.cfg.Log.Info("the boot resumes", "group", r.admitted.ID.Group, "slot", r.admitted.ID.Slot, "since", r.admitted.Since, "ends", r.admitted.Ends())
		return r.admitted, nil
	}
	return a.admit.AdmitUntil(ctx)
}

// reconfigure puts the configuration in force that was before, until a coordinator gives
// the newest.
func (a *Agent) reconfigure() {
	if a.resumed == nil {
		return
	}
	if err := a.config.Configure(a.resumed.config); err != nil {
		a.cfg.Log.Error("the previous configuration is not in force", "error", err)
	}
}

// keepCredentials keeps the saved state for the next process of this Boot up to date.
func (a *Agent) keepCredentials(ctx context.Context) error {
	latestvalue.Each(ctx, a.saveCredentials, a.admitted.Next, a.peers.Next, a.config.Next)
	return nil
}

// saveCredentials saves the state in force. A failed save costs the next process only an admission.
func (a *Agent) saveCredentials() {
	current, _ := a.admitted.Get()
	if current == nil || a.ended.Load() != nil {
		return
	}
	state, err := current.State()
	if err != nil {
		a.cfg.Log.Error("the boot's state is not saved: the next process would request admission", "error", err)
		return
	}
	state.BootAt = a.bootAt
	if list, _ := a.peers.Get(); len(list) > 0 {
		state.Peers = list
	}
	state.Config = a.config.Text()
	if err := a.credcache.Save(state); err != nil {
		a.cfg.Log.Error("the boot's newest state is not saved: the next process would resume an older one", "error", err)
	}
}

// forget removes the saved state at the end of the Boot. With spent, it removes the key, too.
func (a *Agent) forget(spent bool) error {
	err := a.credcache.Remove()
	if spent {
		_, failed := a.cfg.Parent.NewKey()
		err = errors.Join(err, failed)
	}
	return err
}

// untilFarewell runs parts until ctx ends or one fails. If whole has ended too, it first notifies
// the coordinators: after a failure the same Boot continues in a new process.
func (a *Agent) untilFarewell(ctx, whole context.Context, parts ...func(context.Context) error) error {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		if whole.Err() != nil {
			a.farewell(inner)
		}
		cancel(context.Cause(ctx))
	})
	defer stop()
	return runAll(inner, parts...)
}

// farewell notifies the coordinators that this Boot ends, so that its Slot need not wait for the
// end of its lease.
func (a *Agent) farewell(ctx context.Context) {
	if a.ended.Load() != nil {
		return
	}
	if err := a.hub.Farewell(ctx); err != nil {
		a.cfg.Log.Warn("not every coordinator knows that this boot ends", "error", err)
	}
}
