package agent

import (
	"context"
	"net/netip"

	"cadre.dev/agent/internal/api"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/workloadfiles"
	"cadre.dev/core/group"
	"cadre.dev/core/secret"
)

// watchHealth keeps the healthy streak and asks for a report on every change.
func (a *Agent) watchHealth(ctx context.Context) error {
	a.builder.Follow(ctx, &a.changed, a.member.Changes().Next, a.checker.Changes().Next, a.lifecycle.Load().Changes().Next,
		a.backends.Changes().Next, a.config.Next, a.service.changed)
	return nil
}

// writeMesh keeps the workloads' files up to date, and writes the ready file once they are
// complete: admitted and configured.
func (a *Agent) writeMesh(ctx context.Context) error {
	announced := false
	if current, _ := a.admitted.Get(); a.resumed == nil && current != nil {
		if err := a.proveTokens(ctx, *current); err != nil && ctx.Err() == nil {
			a.cfg.Log.Warn("the token of the admission is not known yet", "error", err)
		}
	}
	// Not the hub's peers: they may be newer than the peers that updateMesh would read.
	latestvalue.Each(ctx, func() {
		if err := a.updateMesh(&announced); err != nil {
			a.cfg.Log.Error("mesh files are not up to date", "error", err)
		}
	}, a.admitted.Next, a.config.Next, a.peers.Next)
	return nil
}

func (a *Agent) updateMesh(announced *bool) error {
	current, _ := a.admitted.Get()
	config, _ := a.config.Get()
	if current == nil || config == nil || a.ended.Load() != nil {
		return nil //nolint:nilerr // why the Slot was lost is no error of the files
	}
	vip, err := parseVIP(current.Grant.GetVip())
	if err != nil {
		return err
	}
	info := workloadfiles.Info{
		Cluster: current.ID.Cluster, Group: current.ID.Group, Slot: current.ID.Slot, VIP: vip,
		Members: config.Members, VIPs: map[string]netip.Addr{current.ID.Slot: vip}, Meta: config.Meta, Routes: dialled(config.ServiceMesh.Routes),
		Secrets: secretsOf(current.Grant), ConsulToken: secret.FromString(current.Grant.GetConsul().GetWorkloadToken()),
		RevisionMark: a.cfg.RevisionMark,
	}
	var waits bool
	info.JoinMembers, waits = joins(config)
	if config.Membership != nil {
		info.Founders = config.Membership.Founders
	}
	list, _ := a.peers.Get()
	for _, p := range list {
		info.VIPs[p.ID.Slot] = p.VIP
	}
	if err := a.mesh.Write(info); err != nil {
		return err
	}
	if *announced || waits {
		return nil
	}
	if err := a.mesh.Ready(); err != nil {
		return err
	}
	*announced = true
	a.cfg.Log.Info("workloads may start", "slot", current.ID.Slot)
	return nil
}

func (a *Agent) results() []lifecycle.Result {
	if e := a.lifecycle.Load(); e != nil {
		return e.Results()
	}
	return nil
}

// notReady names the missing condition; empty when ready.
func (a *Agent) notReady() string {
	current, _ := a.admitted.Get()
	ended := a.ended.Load()
	switch {
	case ended != nil:
		return "this boot lost its slot: " + ended.Error()
	case current == nil:
		return "not admitted yet"
	case !a.hub.Connected():
		return "no coordinator is connected"
	}
	return ""
}

func (a *Agent) instance() (api.Instance, bool) {
	current, _ := a.admitted.Get()
	if current == nil {
		return api.Instance{}, false
	}
	state := a.member.State()
	v := state.View
	out := api.Instance{
		Cluster: current.ID.Cluster, Group: current.ID.Group, Slot: current.ID.Slot,
		VIP: current.Grant.GetVip(), BootID: a.boot.ID, AppID: current.AppID, InstanceID: current.InstanceID,
		Revision: current.Grant.GetRevision(), Members: []string{}, Meta: map[string]string{},
		Term: a.hub.Term(), Checks: []api.Check{},
		Member: api.Member{
			Known: state.Known, Role: string(v.Role), Ready: v.Ready, CaughtUp: v.CaughtUp, LagBytes: v.LagBytes,
			Leader: v.Leader, Epoch: v.Epoch, MayDisrupt: v.MayDisrupt, MayDisruptReason: v.MayDisruptReason,
			Message: v.Message,
		},
	}
	out.SecretEpochs = a.epochs()
	if c, _ := a.config.Get(); c != nil {
		out.Members = append(out.Members, c.Members...)
		for k, value := range c.Meta {
			out.Meta[k] = value
		}
	}
	for _, c := range a.checks() {
		out.Checks = append(out.Checks, api.Check{Name: c.Name, Health: string(c.Health), Message: c.Message, Since: c.Since})
	}
	return out, true
}

// dialled are the addresses of routes by the names that applications dial: the name of each route, and its alias.
func dialled(routes []group.RouteTo) map[string]netip.Addr {
	out := map[string]netip.Addr{}
	for _, r := range routes {
		out[r.Name] = r.VIP
		if r.Alias != "" {
			out[r.Alias] = r.VIP
		}
	}
	return out
}
