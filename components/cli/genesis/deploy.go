package genesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/appcompose"
	"cadre.dev/platform"
)

// createPatience bounds how long a create is repeated: an app that was just made
// may not be known everywhere, and the workspace may be busy.
const createPatience = 2 * time.Minute

// deploy makes the missing coordinators, one after another, and returns all of
// them by name. The compose hash is noted in the context before the first is made.
func deploy(ctx context.Context, o Options, c client.Context, co groupfile.Coordinator) (map[string]platform.Instance, client.Context, error) {
	found, err := byName(ctx, o.Cloud, c, co.Replicas)
	if err != nil {
		return nil, c, err
	}
	existing := ""
	for _, i := range found {
		existing = i.VMUUID
	}
	t, p, err := offer(ctx, o, c, co, existing)
	if err != nil {
		return nil, c, err
	}
	c = addHash(c, p.ComposeHash)
	if err := c.Save(o.ContextPath); err != nil {
		return nil, c, err
	}
	if err := o.allowKeys(c.CoordinatorAppID, p.ComposeHash, false); err != nil {
		return nil, c, err
	}
	for n := range co.Replicas {
		name := CVMName(c.Cluster, n)
		if i, ok := found[name]; ok {
			o.Say(fmt.Sprintf("%s exists (%s)", name, i.Status))
			if i.ComposeHash != "" && i.ComposeHash != p.ComposeHash {
				return nil, c, fmt.Errorf("%s runs another compose file (hash %s) than this cluster file gives (%s): create does not change coordinators: run `cadre cluster upgrade`, or put the file back", name, i.ComposeHash, p.ComposeHash)
			}
			if i.StaysDown() {
				o.Say("starting " + name)
				if _, err := o.Cloud.Start(ctx, i.VMUUID); err != nil && !errors.Is(err, platform.ErrBusy) {
					return nil, c, fmt.Errorf("start %s: %w", name, err)
				}
			}
			continue
		}
		t.Env = envOf(co.Env, n)
		req := platform.CreateRequest{Name: name, Provisioned: p, Template: t, Node: freest(o.Cluster.Platform.Nodes, slices.Collect(maps.Values(found)))}
		if len(found) > 0 {
			req.AppID = c.CoordinatorAppID
		}
		o.Say("creating " + name)
		made, err := create(ctx, o, c, req, co.Replicas)
		if err != nil {
			return nil, c, err
		}
		made.Node = cmp.Or(made.Node, req.Node)
		found[name] = made
	}
	return found, c, nil
}

// offer renders the coordinators' document and has the platform measure it, which changes no CVM.
// existing is the CVM of a coordinator, "" before the first. ComposeHash of the reply is of bytes that
// Cadre judged.
func offer(ctx context.Context, o Options, c client.Context, co groupfile.Coordinator, existing string) (platform.Template, platform.Provisioned, error) {
	want := measured(c, co)
	sent, err := want.Rules.Render(want.Name, want.Compose, want.Envs)
	if err != nil {
		return platform.Template{}, platform.Provisioned{}, fmt.Errorf("coordinators: %w", err)
	}
	t := platform.Template{
		AppCompose: sent, Env: envOf(co.Env, 0),
		InstanceType: co.InstanceType, OSImage: co.OSImage, DiskGB: co.DiskGB,
		AppID: c.CoordinatorAppID, AppNonce: c.CoordinatorAppNonce,
	}
	p, err := o.Cloud.Provision(ctx, existing, t)
	if err != nil {
		return t, p, err
	}
	text, err := appcompose.Settle(sent, appcompose.Answer{Hash: p.ComposeHash, Text: p.AppCompose}, want)
	if err != nil {
		return t, p, fmt.Errorf("coordinators: nothing is made: %w", err)
	}
	if p.ComposeHash = appcompose.Hash(text); p.AppID == "" {
		p.AppID = c.CoordinatorAppID
	}
	return t, p, nil
}

// measured describes the required document of the coordinators. Their env names are a closed list:
// agents do not know the coordinators' spec and reject any other name.
func measured(c client.Context, co groupfile.Coordinator) appcompose.Want {
	rules := c.Trust.DocumentRules()
	rules.Platform = c.Platform.Driver
	return appcompose.Want{
		Name: c.Cluster + "-coordinator", Compose: co.Compose, Envs: slices.Collect(maps.Keys(envOf(co.Env, 0))),
		Rules: rules,
	}
}

// envOf adds the values that differ between coordinators; values are not measured, so all have one
// compose hash.
func envOf(env map[string]string, n int) map[string]string {
	out := maps.Clone(env)
	if out == nil {
		out = map[string]string{}
	}
	out["CADRE_SLOT"] = Slot(n)
	return out
}

// create makes one CVM. After an unknown outcome it looks for the name before it
// asks again (R67).
func create(ctx context.Context, o Options, c client.Context, req platform.CreateRequest, replicas int) (platform.Instance, error) {
	deadline := time.Now().Add(createPatience)
	for {
		made, err := o.Cloud.Create(ctx, req)
		if err == nil {
			return made, nil
		}
		certain := errors.Is(err, platform.ErrRefused)
		again := errors.Is(err, platform.ErrBusy) || errors.Is(err, platform.ErrThrottled) || errors.Is(err, platform.ErrNotFound)
		if certain && !again || time.Now().After(deadline) || !pause(ctx, o.Poll) {
			return made, err
		}
		o.Say(fmt.Sprintf("%s: %v; looking and trying again", req.Name, err))
		if !certain {
			found, listErr := byName(ctx, o.Cloud, c, replicas)
			if listErr != nil {
				return made, errors.Join(err, listErr)
			}
			if i, ok := found[req.Name]; ok {
				return i, nil
			}
		}
	}
}

// byName lists the coordinators that exist. A CVM with a coordinator's name in
// another app is not touched and ends the run.
func byName(ctx context.Context, cloud Cloud, c client.Context, replicas int) (map[string]platform.Instance, error) {
	list, err := cloud.List(ctx, "")
	if err != nil {
		return nil, err
	}
	out := map[string]platform.Instance{}
	for n := range replicas {
		name := CVMName(c.Cluster, n)
		for _, i := range list {
			if !strings.EqualFold(i.Name, name) {
				continue
			}
			if i.AppID != "" && i.AppID != c.CoordinatorAppID {
				return nil, fmt.Errorf("a CVM called %s exists already, in app %s, not in this cluster's app %s: delete it or name the cluster otherwise", name, i.AppID, c.CoordinatorAppID)
			}
			if _, twice := out[name]; twice {
				return nil, fmt.Errorf("two CVMs are called %s: delete one", name)
			}
			out[name] = i
		}
	}
	return out, nil
}

// running waits until the platform says that every coordinator runs.
func running(ctx context.Context, o Options, c client.Context, want map[string]platform.Instance) error {
	o.Say(fmt.Sprintf("waiting for %d coordinators to boot", len(want)))
	for {
		found, err := byName(ctx, o.Cloud, c, len(want))
		waiting := []string{}
		for n := range len(want) {
			name := CVMName(c.Cluster, n)
			switch i, ok := found[name]; {
			case ok && i.BootError != "":
				return bootProblem(name, i.BootError)
			case !ok || !i.Running():
				waiting = append(waiting, fmt.Sprintf("%s (%s)", name, i.Status))
			}
		}
		if err == nil && len(waiting) == 0 {
			return nil
		}
		if !pause(ctx, o.Poll) {
			return fmt.Errorf("not running: %s: %w", strings.Join(waiting, ", "), errors.Join(context.Cause(ctx), err))
		}
	}
}
