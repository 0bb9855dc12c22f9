package cloud

import "strings"

// Kill ends a CVM at once, as a host crash would.
func (c *Cloud) Kill(ref string) error {
	v, m, err := c.running(ref)
	if err != nil {
		return err
	}
	c.cfg.Log.Info("cvm killed on request", "instance", v.Name)
	m.Kill()
	return nil
}

// LoseDisk removes the data disk of a stopped CVM; its record stays.
func (c *Cloud) LoseDisk(ref string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(ref)
	if err != nil {
		return err
	}
	if v.Status != Stopped || v.Progress != nil {
		return refuse(BadState, "CVM %s is %s; stop it first", v.Name, v.Status)
	}
	return c.cfg.Hypervisor.LoseDisk(v.VMUUID)
}

// CopySeed gives one CVM the instance seed of another, as a hostile host could.
// It shows from the next boot on.
func (c *Cloud) CopySeed(from, to string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(from)
	if err != nil {
		return err
	}
	b, err := c.find(to)
	if err != nil {
		return err
	}
	b.Seed = append([]byte{}, a.Seed...)
	return c.save()
}

// Running returns the machine of a running CVM.
func (c *Cloud) Running(ref string) (Machine, error) {
	_, m, err := c.running(ref)
	return m, err
}

func (c *Cloud) running(ref string) (CVM, Machine, error) {
	v, err := c.Find(ref)
	if err != nil {
		return CVM{}, nil, err
	}
	m, ok := c.Machine(v.VMUUID)
	if !ok {
		return CVM{}, nil, refuse(BadState, "CVM %s is not running (%s)", v.Name, v.Status)
	}
	return v, m, nil
}

// Target is a running CVM behind a gateway name.
type Target struct {
	UUID    string
	Machine Machine
}

// Resolve finds the running CVMs behind an instance id (one), or an app id, then
// in an order that moves on by one with each call.
func (c *Cloud) Resolve(id string) []Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	var byApp []Target
	for _, v := range c.st.CVMs {
		m, ok := c.machines[v.VMUUID]
		if !ok {
			continue
		}
		if v.InstanceID != "" && strings.EqualFold(v.InstanceID, id) {
			return []Target{{v.VMUUID, m}}
		}
		if v.AppID == id {
			byApp = append(byApp, Target{v.VMUUID, m})
		}
	}
	if len(byApp) > 1 {
		turn := c.turns[id] % len(byApp)
		c.turns[id]++
		byApp = append(byApp[turn:], byApp[:turn]...)
	}
	return byApp
}
