package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"cadre.dev/local/internal/appcompose"
)

// Change is the receipt of an accepted change.
type Change struct {
	CVM CVM
	// Correlation is empty when there was nothing to do.
	Correlation string
	// EnvsChanged: the allowed env names changed, and so did the compose hash.
	EnvsChanged bool
}

// Power is a power operation.
type Power string

const (
	// PowerStart boots a stopped CVM.
	PowerStart Power = "start"
	// PowerStop ends it hard.
	PowerStop Power = "stop"
	// PowerShutdown lets the services end, each with its grace.
	PowerShutdown Power = "shutdown"
	// PowerRestart is a shutdown and a boot.
	PowerRestart Power = "restart"
	// PowerForceRestart is a hard stop and a boot.
	PowerForceRestart Power = "force_restart"
)

// SetPower accepts a power operation. Asking for the state that is there already
// is accepted and does nothing.
func (c *Cloud) SetPower(ref string, p Power) (Change, error) {
	return c.change(ref, func(v *CVM) (*operation, error) {
		on := v.Status == Running
		switch {
		case p == PowerStart && !on:
			return &operation{name: "start", during: Starting, target: Running, work: c.workBoot}, nil
		case p == PowerStop && on:
			return &operation{name: "stop", during: Stopping, target: Stopped, work: c.workStop}, nil
		case p == PowerShutdown && on:
			return &operation{name: "shutdown", during: ShuttingDown, target: Stopped, work: c.workShutdown}, nil
		case p == PowerRestart:
			return &operation{name: "restart", during: Restarting, target: Running, work: c.workCycle}, nil
		case p == PowerForceRestart:
			return &operation{name: "restart", during: Restarting, target: Running, work: c.workCycleHard}, nil
		}
		return nil, nil
	})
}

// Delete accepts the deletion of a CVM and its disk.
func (c *Cloud) Delete(ref string) error {
	_, err := c.change(ref, func(*CVM) (*operation, error) {
		return &operation{name: "delete", during: Deleting, target: Deleting, work: c.workDelete, shown: true}, nil
	})
	return err
}

// ApplyCompose accepts the update of one CVM to a compose that was provisioned.
// An encryptedEnv replaces the whole env; without one the old env stays.
func (c *Cloud) ApplyCompose(ref, hash, encryptedEnv string) (Change, error) {
	return c.change(ref, func(v *CVM) (*operation, error) {
		return c.toCompose(v, hash, encryptedEnv, "update_compose")
	})
}

// UpdateEnv accepts another env. keys, when not nil, are the allowed names; other
// names than before make another compose.
func (c *Cloud) UpdateEnv(ref, encryptedEnv string, keys []string) (Change, error) {
	if encryptedEnv == "" {
		return Change{}, badField("encrypted_env", "Field required")
	}
	envsChanged := false
	out, err := c.change(ref, func(v *CVM) (*operation, error) {
		a := c.st.Apps[v.AppID]
		hash := v.ComposeHash
		parsed, err := appcompose.Parse([]byte(a.Composes[hash]))
		if err != nil {
			return nil, err
		}
		if keys != nil && !slices.Equal(appcompose.NormalEnvs(keys), appcompose.NormalEnvs(parsed.AllowedEnvs)) {
			raw, err := appcompose.WithAllowedEnvs([]byte(a.Composes[hash]), keys)
			if err != nil {
				return nil, err
			}
			envsChanged, hash = true, a.remember(raw)
		}
		return c.toCompose(v, hash, encryptedEnv, "update_envs")
	})
	out.EnvsChanged = envsChanged
	return out, err
}

// Patch is one change of several things with one restart; zero fields stay as they are.
type Patch struct {
	Compose      func(*appcompose.Fields)
	EncryptedEnv string
	Hardware
	ShutdownTimeout int
}

// UpdateAll accepts p.
func (c *Cloud) UpdateAll(ref string, p Patch) (Change, error) {
	return c.change(ref, func(v *CVM) (*operation, error) {
		was := Hardware{OSImage: v.OSImage, InstanceType: v.InstanceType, DiskGB: v.DiskGB}
		next := Hardware{OSImage: cmp.Or(p.OSImage, was.OSImage), InstanceType: cmp.Or(p.InstanceType, was.InstanceType), DiskGB: max(was.DiskGB, p.DiskGB)}
		if p.DiskGB != 0 && p.DiskGB < was.DiskGB {
			return nil, badField("disk_size", "cannot shrink from %d to %d", was.DiskGB, p.DiskGB)
		}
		if err := c.offers(next); err != nil {
			return nil, err
		}
		hash := v.ComposeHash
		if p.Compose != nil {
			raw, err := c.editCompose(v, p.Compose)
			if err != nil {
				return nil, err
			}
			hash = c.st.Apps[v.AppID].remember(raw)
		}
		op, err := c.toCompose(v, hash, p.EncryptedEnv, "update")
		if err != nil {
			return nil, err
		}
		if p.ShutdownTimeout != 0 && p.ShutdownTimeout != v.ShutdownTimeout {
			v.ShutdownTimeout = p.ShutdownTimeout
			op = cmp.Or(op, c.updating(v, "update"))
		}
		if next != was {
			v.OSImage, v.InstanceType, v.DiskGB = next.OSImage, next.InstanceType, next.DiskGB
			op = cmp.Or(op, c.updating(v, "update"))
			op.was = &was
		}
		return op, nil
	})
}

// editCompose is v's app-compose.json with an edit, built by the server again.
func (c *Cloud) editCompose(v *CVM, edit func(*appcompose.Fields)) ([]byte, error) {
	var f appcompose.Fields
	if err := json.Unmarshal([]byte(c.st.Apps[v.AppID].Composes[v.ComposeHash]), &f); err != nil {
		return nil, err
	}
	edit(&f)
	raw, err := appcompose.Build(f)
	if err != nil {
		return nil, refuse(BadCompose, "%s", err)
	}
	return raw, nil
}

// open refuses in a suspended workspace; called under the lock.
func (c *Cloud) open() error {
	if c.settings.Suspended {
		return refuse(Suspended, "Workspace is suspended")
	}
	return nil
}

// UpdateImage accepts another OS image.
func (c *Cloud) UpdateImage(ref, image string) (Change, error) {
	if image == "" {
		return Change{}, badField("os_image_name", "Field required")
	}
	return c.changeHardware(ref, "update_os_image", func(h *Hardware) error {
		h.OSImage = image
		return c.offers(*h)
	})
}

// UpdateResources accepts another size; the disk only grows. "" and 0 leave as it is.
func (c *Cloud) UpdateResources(ref, instanceType string, diskGB int) (Change, error) {
	return c.changeHardware(ref, "update_resources", func(h *Hardware) error {
		if diskGB != 0 && diskGB < h.DiskGB {
			return badField("disk_size", "cannot shrink from %d to %d", h.DiskGB, diskGB)
		}
		h.InstanceType, h.DiskGB = cmp.Or(instanceType, h.InstanceType), max(h.DiskGB, diskGB)
		return c.offers(*h)
	})
}

// changeHardware accepts a CVM's hardware after edit. The record has the new hardware at once, so
// that a restarted daemon boots with it. The CVM reports its former hardware until the operation
// shows.
func (c *Cloud) changeHardware(ref, name string, edit func(*Hardware) error) (Change, error) {
	return c.change(ref, func(v *CVM) (*operation, error) {
		was := Hardware{OSImage: v.OSImage, InstanceType: v.InstanceType, DiskGB: v.DiskGB}
		next := was
		if err := edit(&next); err != nil || next == was {
			return nil, err
		}
		v.OSImage, v.InstanceType, v.DiskGB = next.OSImage, next.InstanceType, next.DiskGB
		op := c.updating(v, name)
		op.was = &was
		return op, nil
	})
}

// offers rejects hardware that this cloud does not have.
func (c *Cloud) offers(h Hardware) error {
	if len(c.cfg.Images) > 0 && !slices.Contains(c.cfg.Images, h.OSImage) {
		return refuse(NoImage, "OS image %q not found", h.OSImage)
	}
	if _, ok := InstanceTypeNamed(h.InstanceType); !ok {
		return badField("instance_type", "%q is not an instance type", h.InstanceType)
	}
	return nil
}

// Rename changes the name; nothing is restarted.
func (c *Cloud) Rename(ref, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(ref)
	if err != nil {
		return err
	}
	for _, o := range c.st.CVMs {
		if o != v && strings.EqualFold(o.Name, name) {
			return refuse(NameTaken, "CVM name %q is already in use in this workspace", name)
		}
	}
	v.Name = name
	return c.save()
}

// Redeploy accepts an older revision on the named CVMs of the app (all when
// uuids is empty). When one of them is busy, none is changed.
func (c *Cloud) Redeploy(appID, revision string, uuids []string, encryptedEnv string) (correlation string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.app(appID)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(a.Revisions, func(r Revision) bool { return r.ID == revision })
	if at < 0 {
		return "", refuse(NotFound, "Revision not found")
	}
	hash := a.Revisions[at].ComposeHash
	var targets []*CVM
	for _, v := range c.st.CVMs {
		if v.AppID == a.ID && len(uuids) == 0 {
			targets = append(targets, v)
		}
	}
	for _, id := range uuids {
		v, err := c.find(id)
		if err != nil {
			return "", err
		}
		if v.AppID != a.ID {
			return "", badField("vm_uuids", "%s is not a CVM of this app", id)
		}
		targets = append(targets, v)
	}
	for _, v := range targets {
		if err := c.free(v); err != nil {
			return "", err
		}
	}
	for _, v := range targets {
		op, err := c.toCompose(v, hash, encryptedEnv, "redeploy")
		if err != nil {
			return "", err
		}
		if op == nil {
			continue
		}
		if err := c.begin(v, *op); err != nil {
			return "", err
		}
		correlation = v.Progress.CorrelationID
	}
	return correlation, nil
}

// change finds a free CVM and begins the operation that plan returns; nil is
// nothing to do.
func (c *Cloud) change(ref string, plan func(*CVM) (*operation, error)) (Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(ref)
	if err != nil {
		return Change{}, err
	}
	if err := c.open(); err != nil {
		return Change{}, err
	}
	if err := c.free(v); err != nil {
		return Change{}, err
	}
	op, err := plan(v)
	if err != nil || op == nil {
		return Change{CVM: snapshot(v)}, err
	}
	if err := c.begin(v, *op); err != nil {
		return Change{}, err
	}
	return Change{CVM: snapshot(v), Correlation: v.Progress.CorrelationID}, nil
}

// toCompose sets v's compose in place, as the real server does when it accepts,
// and plans the update.
func (c *Cloud) toCompose(v *CVM, hash, encryptedEnv, name string) (*operation, error) {
	a := c.st.Apps[v.AppID]
	if a.Composes[hash] == "" {
		return nil, refuse(NotFound, "Compose hash %s not found; provision it first", hash)
	}
	if hash == v.ComposeHash && encryptedEnv == "" {
		return nil, nil
	}
	if encryptedEnv != "" {
		v.EncryptedEnv = encryptedEnv
	}
	if hash != v.ComposeHash || name == "redeploy" {
		v.ComposeHash, a.Template = hash, hash
		a.addRevision(v, name)
	}
	return c.updating(v, name), nil
}

// updating plans a stop and a boot for a running CVM; a stopped one keeps the
// change for its next start.
func (c *Cloud) updating(v *CVM, name string) *operation {
	if v.Status != Running {
		return &operation{name: name, during: Updating, target: Stopped, work: func(context.Context, *CVM) Status { return Stopped }}
	}
	return &operation{name: name, during: Updating, target: Running, work: c.workCycle}
}
