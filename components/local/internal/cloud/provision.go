package cloud

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"

	"cadre.dev/local/internal/appcompose"
)

const (
	maxUncommitted = 200 // provisioned apps without a CVM
	maxComposes    = 500 // remembered per app
)

var nameRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{4,62}$`)

// Provisioned is a compose that the cloud remembers.
type Provisioned struct {
	AppID       string
	ComposeHash string
	Shape       Shape
}

// NextAppID gives out an app id with the nonce that claims it at Provision.
func (c *Cloud) NextAppID() (appID string, nonce uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	appID = hex.EncodeToString(randomBytes(20))
	nonce = uint64(len(c.st.Allots)) + 1
	c.st.Allots[appID] = nonce
	return appID, nonce, c.save()
}

// Provision remembers a compose for a new app. It starts nothing and reserves
// no name. appID and nonce may be empty.
func (c *Cloud) Provision(shape Shape, f appcompose.Fields, appID string, nonce uint64) (Provisioned, error) {
	if err := checkName(shape.Name); err != nil {
		return Provisioned{}, err
	}
	if f.Name == "" {
		f.Name = shape.Name
	}
	raw, err := appcompose.Build(f)
	if err != nil {
		return Provisioned{}, refuse(BadCompose, "%s", err)
	}
	shape = c.defaults(shape)
	if err := c.offers(Hardware{OSImage: shape.OSImage, InstanceType: shape.InstanceType, DiskGB: shape.DiskGB}); err != nil {
		return Provisioned{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := BareID(appID)
	if id == "" {
		id = hex.EncodeToString(randomBytes(20))
	} else if want, ok := c.st.Allots[id]; !ok || want != nonce {
		return Provisioned{}, badField("app_id", "was not given out with this nonce; ask next_app_id")
	}
	a := c.st.Apps[id]
	if a == nil {
		a = &App{ID: id, Name: f.Name, Composes: map[string]string{}, CreatedAt: time.Now().UTC()}
		c.st.Apps[id] = a
	}
	if !a.Committed {
		a.Shape = shape
	}
	hash := a.remember(raw)
	c.forgetUncommitted(id)
	return Provisioned{AppID: id, ComposeHash: hash, Shape: shape}, c.save()
}

// ProvisionUpdate remembers a compose for the app of a CVM; nothing changes yet.
func (c *Cloud) ProvisionUpdate(ref string, f appcompose.Fields) (Provisioned, error) {
	if f.Name == "" {
		return Provisioned{}, badField("name", "Field required")
	}
	raw, err := appcompose.Build(f)
	if err != nil {
		return Provisioned{}, refuse(BadCompose, "%s", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(ref)
	if err != nil {
		return Provisioned{}, err
	}
	hash := c.st.Apps[v.AppID].remember(raw)
	return Provisioned{AppID: v.AppID, ComposeHash: hash}, c.save()
}

// Commit creates the first CVM of a provisioned app. A repeated call gets the CVM of the
// first one; another compose hash is a Conflict.
func (c *Cloud) Commit(appID, hash, encryptedEnv string) (CVM, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.st.Apps[BareID(appID)]
	if !ok || a.Composes[hash] == "" {
		return CVM{}, refuse(NotFound, "Compose hash not found; provision it first")
	}
	if !c.settings.CreateTwice {
		for _, v := range c.st.CVMs {
			switch {
			case v.AppID != a.ID || v.Status == Deleting:
			case v.ComposeHash == hash:
				return snapshot(v), nil
			default:
				return CVM{}, refuse(Conflict, "app %s has a CVM with another compose hash", a.ID)
			}
		}
	}
	return c.create(a, a.Shape, hash, encryptedEnv)
}

// AddInstance creates one more CVM in an app: with a revision of the app by its
// hash, with a new compose, or with the app's template. name may be empty.
func (c *Cloud) AddInstance(appID, name, hash string, compose *appcompose.Fields, nodeID int, encryptedEnv string) (CVM, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.app(appID)
	if err != nil {
		return CVM{}, err
	}
	switch {
	case hash != "" && compose != nil:
		return CVM{}, badField("compose_hash", "excludes docker_compose_file; send one of them")
	case hash != "":
		if !slices.ContainsFunc(a.Revisions, func(r Revision) bool { return r.ComposeHash == hash }) {
			return CVM{}, refuse(NotFound, "compose_hash %s is not a revision of this app", hash)
		}
	case compose != nil:
		if compose.Name == "" {
			compose.Name = a.Name
		}
		raw, err := appcompose.Build(*compose)
		if err != nil {
			return CVM{}, refuse(BadCompose, "%s", err)
		}
		hash = a.remember(raw)
	default:
		hash = a.Template
	}
	shape := a.Shape
	shape.Name = name
	if name == "" {
		shape.Name = a.Name + "-" + hex.EncodeToString(randomBytes(3))
	}
	if nodeID != 0 {
		shape.NodeID = nodeID
	}
	if encryptedEnv == "" {
		// Like the real cloud: instances share the app's env when none is sent.
		for _, v := range c.st.CVMs {
			if v.AppID == a.ID {
				encryptedEnv = v.EncryptedEnv
				break
			}
		}
	}
	return c.create(a, shape, hash, encryptedEnv)
}

// create makes the record and starts its first boot; called under the lock.
func (c *Cloud) create(a *App, shape Shape, hash, encryptedEnv string) (CVM, error) {
	if err := checkName(shape.Name); err != nil {
		return CVM{}, err
	}
	if err := c.open(); err != nil {
		return CVM{}, err
	}
	now := time.Now().UTC()
	if gap := time.Duration(c.settings.CreateConflict); gap > 0 && now.Sub(c.lastCreate) < gap {
		return CVM{}, refuse(Incompatible, "configuration parameters not compatible")
	}
	for _, v := range c.st.CVMs {
		if strings.EqualFold(v.Name, shape.Name) {
			return CVM{}, refuse(NameTaken, "CVM name %q is already in use in this workspace", shape.Name)
		}
	}
	index, err := c.freeIndex()
	if err != nil {
		return CVM{}, err
	}
	c.lastCreate = now
	c.st.NextNum++
	v := &CVM{
		Num: c.st.NextNum, ID: "cvm_" + hex.EncodeToString(randomBytes(6)), Name: shape.Name, AppID: a.ID, VMUUID: newUUID(),
		Seed: randomBytes(20), Index: index, Status: Pending, PowerOn: true, ComposeHash: hash, EncryptedEnv: encryptedEnv,
		OSImage: shape.OSImage, InstanceType: shape.InstanceType, DiskGB: shape.DiskGB, NodeID: shape.NodeID, Listed: shape.Listed,
		CreatedAt: now, UpdatedAt: now, VisibleAt: now.Add(time.Duration(c.settings.CreateHidden)),
	}
	c.st.CVMs = append(c.st.CVMs, v)
	a.Committed, a.Template = true, hash
	a.addRevision(v, "create")
	if err := c.begin(v, operation{name: "create", during: Pending, target: Running, work: c.workBoot, shown: true}); err != nil {
		return CVM{}, err
	}
	return snapshot(v), nil
}

// freeIndex is a place in the fabric for one more CVM.
func (c *Cloud) freeIndex() (int, error) {
	index := 1
	for slices.ContainsFunc(c.st.CVMs, func(v *CVM) bool { return v.Index == index }) {
		index++
	}
	if index > maxIndex {
		return 0, refuse(NoRoom, "no room for another CVM")
	}
	return index, nil
}

// maxIndex is fabric.MaxIndex, restated because this package knows no network.
const maxIndex = 1<<14 - 1

func (c *Cloud) defaults(s Shape) Shape {
	if s.OSImage == "" {
		s.OSImage = DefaultImage
	}
	if s.InstanceType == "" {
		s.InstanceType = InstanceTypes[0].Name
	}
	if s.DiskGB == 0 {
		s.DiskGB = 20
	}
	if s.NodeID == 0 {
		s.NodeID = 1
	}
	return s
}

// DefaultImage is the OS image of CVMs that name none.
const DefaultImage = "dstack-0.5.7"

func checkName(name string) error {
	if !nameRule.MatchString(name) {
		return badField("name", "%q: want 5 to 63 letters, digits and dashes, a letter first", name)
	}
	return nil
}

func (c *Cloud) forgetUncommitted(keep string) {
	var idle []*App
	for _, a := range c.st.Apps {
		if !a.Committed && a.ID != keep {
			idle = append(idle, a)
		}
	}
	slices.SortFunc(idle, func(a, b *App) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for ; len(idle) > maxUncommitted; idle = idle[1:] {
		delete(c.st.Apps, idle[0].ID)
	}
}

// remember keeps raw under its hash.
func (a *App) remember(raw []byte) string {
	hash := appcompose.Hash(raw)
	if len(a.Composes) > maxComposes {
		for old := range a.Composes {
			if !slices.ContainsFunc(a.Revisions, func(r Revision) bool { return r.ComposeHash == old }) {
				delete(a.Composes, old)
			}
		}
	}
	a.Composes[hash] = string(raw)
	return hash
}

func (a *App) addRevision(v *CVM, operation string) {
	a.Revisions = append(a.Revisions, Revision{
		ID: "rev_" + hex.EncodeToString(randomBytes(6)), VMUUID: v.VMUUID, ComposeHash: v.ComposeHash, Operation: operation,
		TraceID: newUUID(), CreatedAt: time.Now().UTC(),
	})
}
