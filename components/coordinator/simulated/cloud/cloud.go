package cloud

import (
	"maps"
	"slices"
	"sync"
	"time"

	"cadre.dev/platform"
)

// Guest runs in a CVM. The cloud calls it under the lock.
type Guest interface {
	// Boots is called when the guest starts to run.
	Boots()
	// Ends is called with the reason when the guest stops, even if it was not running.
	Ends(why string)
}

// Reasons for the end of a guest.
const (
	Restarts = "restarts"
	Stopped  = "stopped"
	Deleted  = "deleted"
)

// CVM is a current or former CVM. Guarded by the lock.
type CVM[G Guest] struct {
	platform.Instance

	Guest G
	// Env is the env of the last call.
	Env map[string]string

	// next is the hash of the current or next boot.
	next string
	// boots counts, so that a restart within a restart counts once.
	boots int
}

// Config of a Cloud. All fields are required.
type Config[G Guest] struct {
	// Lock guards the cloud and its CVMs. It belongs to the owner, whose own state changes together
	// with theirs.
	Lock sync.Locker
	// Guest returns the guest of a new CVM.
	Guest func(*CVM[G]) G
	// BootTakes is the time from a call until the CVM runs, for its next boot. It is called under
	// the lock.
	BootTakes func(*CVM[G]) time.Duration
	// Settle is the maximum time until a list shows an effect.
	Settle time.Duration
	// StopFirst: an Update changes a stopped CVM only, and starts none. The hosts of dstack-vmm do so.
	StopFirst bool
}

// Cloud has the CVMs. Methods with Locked need the lock; those of a [Link] take it.
type Cloud[G Guest] struct {
	cfg  Config[G]
	cvms map[string]*CVM[G] // by name
	// sorted are the CVMs by name; nil after a creation or removal.
	sorted []*CVM[G]
	// asked counts the create calls.
	asked int
	// documents are the provisioned documents by hash.
	documents map[string][]byte
	// sizes are the instance types of the apps.
	sizes map[string]string
}

// New returns an empty cloud.
func New[G Guest](cfg Config[G]) *Cloud[G] {
	return &Cloud[G]{cfg: cfg, cvms: map[string]*CVM[G]{}, documents: map[string][]byte{}, sizes: map[string]string{}}
}

// AllLocked returns the CVMs by name. Do not change its elements; a creation or removal makes a new
// slice.
func (c *Cloud[G]) AllLocked() []*CVM[G] {
	if c.sorted == nil {
		c.sorted = make([]*CVM[G], 0, len(c.cvms))
		for _, name := range slices.Sorted(maps.Keys(c.cvms)) {
			c.sorted = append(c.sorted, c.cvms[name])
		}
	}
	return c.sorted
}

// NamedLocked returns the CVM of that name; nil: there is none.
func (c *Cloud[G]) NamedLocked(name string) *CVM[G] { return c.cvms[name] }

// DocumentLocked returns the document with this hash; nil: it was never provisioned.
func (c *Cloud[G]) DocumentLocked(hash string) []byte { return c.documents[hash] }

func (c *Cloud[G]) byIDLocked(vmUUID string) *CVM[G] {
	for _, one := range c.cvms {
		if one.VMUUID == vmUUID {
			return one
		}
	}
	return nil
}

// RebootLocked restarts the CVM with its next document; the boot takes BootTakes.
func (c *Cloud[G]) RebootLocked(one *CVM[G]) { c.bootLocked(one, one.next) }

func (c *Cloud[G]) bootLocked(one *CVM[G], hash string) {
	one.Guest.Ends(Restarts)
	one.InProgress, one.Status, one.next = true, "updating", hash
	one.boots++
	mine := one.boots
	time.AfterFunc(c.cfg.BootTakes(one), func() {
		c.cfg.Lock.Lock()
		defer c.cfg.Lock.Unlock()
		if one.boots != mine || c.cvms[one.Name] != one {
			return
		}
		one.InProgress, one.Status, one.ComposeHash, one.UpdatedAt = false, "running", hash, time.Now()
		one.Guest.Boots()
	})
}

// ChangeLocked sets the document of the CVM's next boot. A running CVM reboots at once, a stopped
// one when it is started.
func (c *Cloud[G]) ChangeLocked(one *CVM[G], hash string) {
	if one.Status == Stopped && !one.InProgress {
		one.next, one.ComposeHash, one.UpdatedAt = hash, hash, time.Now()
		return
	}
	c.bootLocked(one, hash)
}

// HaltLocked stops the CVM, like the death of its host: only a call starts it again.
func (c *Cloud[G]) HaltLocked(one *CVM[G]) {
	one.Guest.Ends(Stopped)
	one.InProgress, one.Status, one.ComposeHash, one.UpdatedAt = false, Stopped, one.next, time.Now()
	one.boots++
}

// RemoveLocked removes the CVM and its disk.
func (c *Cloud[G]) RemoveLocked(one *CVM[G], why string) {
	one.Guest.Ends(why)
	delete(c.cvms, one.Name)
	c.sorted = nil
}
