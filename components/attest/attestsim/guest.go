package attestsim

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// DefaultAgentVersion is the dstack version whose behaviour a Guest shows by default.
const DefaultAgentVersion = "0.5.11"

// BootConfig is one boot of one CVM.
type BootConfig struct {
	// AppID, 40 hex characters.
	AppID string
	// AppCompose is the bytes of app-compose.json; they are measured unchanged.
	AppCompose []byte
	// InstanceIDSeed is 20 bytes that live as long as the CVM's disk; the caller
	// keeps them. nil: the CVM has no instance id (no_instance_id).
	InstanceIDSeed []byte
	// OSImage is the name of the guest OS image.
	OSImage string
	// Shape is the CVM's; zero: the first of Shapes.
	Shape Shape
	// AgentVersion selects boot log and wire behaviour, "0.5.4" for example. "" is that of
	// the image from 0.6 on, and DefaultAgentVersion below.
	AgentVersion string
	// Host is the machine's name. "" is the only machine of a small cloud.
	Host string
	// Machine is the number of the machine, from 0: each has keys, a PPID and a platform instance of
	// its own. Another number than 0 is put before Host (MachineName).
	Machine int
	// Faults are the faults of this boot. Zero: none.
	Faults Faults
}

// Faults are ways in which the platform or the guest misbehaves.
type Faults struct {
	// DebugTD starts the TD in debug mode.
	DebugTD bool
	// ForeignKeyProvider measures another KMS.
	ForeignKeyProvider bool
	// ForeignConfig fixes MRCONFIGID by another document than that of AppCompose.
	ForeignConfig bool
	// WrongComposeHash measures another compose hash than that of AppCompose.
	WrongComposeHash bool
	// TamperLog shows another instance id in the log than was measured.
	TamperLog bool
	// ForeignRoot signs with a chain that looks the same under another root.
	ForeignRoot bool
	// ForeignImage boots another OS image under the same name.
	ForeignImage bool
	// ReplayQuote answers every GetQuote with the first quote.
	ReplayQuote bool
	// NoSystemReady leaves out the end of the boot.
	NoSystemReady bool
	// ExtraBootEvent is an event of that name and an empty payload right before
	// system-ready; "" is none.
	ExtraBootEvent string
	// FailQuotes is how many calls that need a quote answer 400 before one works.
	FailQuotes int
	// Latency delays every answer.
	Latency time.Duration
}

// Guest is the guest agent of one boot. Its state ends with it: a restart is
// another Boot with the same seed. It is safe for concurrent use.
type Guest struct {
	// constant after Boot
	cloud        *Cloud
	host         *host
	version      version
	image        image
	appID        []byte
	instanceID   []byte
	composeHash  [32]byte // the measured one
	appCompose   []byte
	appName      string
	keyProvider  string // JSON text
	report       Report // all but RTMR3 and report data
	appKey       *secp256k1.PrivateKey
	appKeySigned []byte
	appCA        *appCA
	faults       Faults

	// quoting is held while a quote is made: one at a time, as on real hardware.
	quoting sync.Mutex

	mu          sync.Mutex
	events      []event  // guarded by mu
	rtmr3       [48]byte // guarded by mu
	firstQuote  []byte   // guarded by mu
	failedCalls int      // guarded by mu
}

// Boot starts a Guest: it measures cfg, in the order of its version of dstack.
func (c *Cloud) Boot(cfg BootConfig) (*Guest, error) {
	g := &Guest{cloud: c, appCompose: append([]byte(nil), cfg.AppCompose...), faults: cfg.Faults}
	var err error
	if g.appID, err = decodeAppID(cfg.AppID); err != nil {
		return nil, fmt.Errorf("boot simulated guest: %w", err)
	}
	if len(cfg.InstanceIDSeed) != 0 && len(cfg.InstanceIDSeed) != 20 {
		return nil, fmt.Errorf("boot simulated guest: instance id seed has %d bytes, not 20", len(cfg.InstanceIDSeed))
	}
	if cfg.OSImage == "" {
		return nil, errors.New("boot simulated guest: OS image is empty; name one")
	}
	if g.version, err = parseVersion(cmp.Or(cfg.AgentVersion, agentOf(cfg.OSImage))); err != nil {
		return nil, fmt.Errorf("boot simulated guest: %w", err)
	}
	if g.host, err = c.hostFor(cfg); err != nil {
		return nil, fmt.Errorf("boot simulated guest: %w", err)
	}
	if len(cfg.InstanceIDSeed) > 0 {
		id := sha256.Sum256(append(append([]byte(nil), cfg.InstanceIDSeed...), g.appID...))
		g.instanceID = id[:20]
	}
	name, shape := cfg.OSImage, cfg.Shape
	if cfg.Faults.ForeignImage {
		name += "\x00foreign"
	}
	if shape == (Shape{}) {
		shape = Shapes[0]
	}
	g.image = imageNamed(name, shape)
	if err := g.loadKeys(); err != nil {
		return nil, fmt.Errorf("boot simulated guest: %w", err)
	}
	if err := g.measure(cfg); err != nil {
		return nil, fmt.Errorf("boot simulated guest: %w", err)
	}
	return g, nil
}

// InstanceID is the hex instance id, "" if the CVM has none.
func (g *Guest) InstanceID() string { return hexOf(g.instanceID) }

// ComposeHash is the hex of the measured compose hash.
func (g *Guest) ComposeHash() string { return hexOf(g.composeHash[:]) }

// Handler serves the agent's whole wire protocol, for a unix socket.
func (g *Guest) Handler() http.Handler { return http.HandlerFunc(g.serve) }

func (c *Cloud) hostFor(cfg BootConfig) (*host, error) {
	if !cfg.Faults.ForeignRoot {
		return c.hostNamed(MachineName(cfg.Machine) + cfg.Host)
	}
	// A whole second manufacturer, as an attacker would make one.
	seed, err := newSeed()
	if err != nil {
		return nil, err
	}
	foreign := &Cloud{seed: seed, hosts: map[string]*host{}, registered: map[string]int{}}
	if foreign.rootKey, err = deriveP256(seed, "root-ca"); err != nil {
		return nil, err
	}
	if foreign.rootPEM, err = makeRoot(foreign.rootKey); err != nil {
		return nil, err
	}
	if foreign.root, err = parsePEMCertificate(foreign.rootPEM); err != nil {
		return nil, err
	}
	return foreign.hostNamed(MachineName(cfg.Machine) + cfg.Host)
}

func (g *Guest) loadKeys() error {
	key, signature, err := g.cloud.kms.appKey(g.appID)
	if err != nil {
		return fmt.Errorf("app key: %w", err)
	}
	g.appKey, g.appKeySigned = secp256k1.PrivKeyFromBytes(key), signature
	g.appCA, err = g.cloud.kms.appCA(g.appID)
	return err
}

// measure emits the events of the boot and fixes the registers.
func (g *Guest) measure(cfg BootConfig) error {
	var compose struct {
		Name      string `json:"name"`
		StorageFS string `json:"storage_fs"`
	}
	if err := json.Unmarshal(g.appCompose, &compose); err != nil {
		return fmt.Errorf("app-compose.json: %w", err)
	}
	g.appName = compose.Name
	g.composeHash = sha256.Sum256(g.appCompose)
	if cfg.Faults.WrongComposeHash {
		g.composeHash[0] ^= 1
	}
	providerID := g.cloud.kms.caSPKI
	if cfg.Faults.ForeignKeyProvider {
		providerID = append([]byte(nil), providerID...)
		if _, err := rand.Read(providerID[len(providerID)-32:]); err != nil {
			return err
		}
	}
	provider, err := json.Marshal(struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}{"kms", hexOf(providerID)})
	if err != nil {
		return err
	}
	g.keyProvider = string(provider)

	mrKMS := sha256.Sum256(append([]byte("cadre simulated kms\x00"), g.cloud.kms.caSPKI...))
	g.events = append(g.events, g.image.events...)
	g.emit("system-preparing", nil)
	g.emit("app-id", g.appID)
	g.emit("compose-hash", g.composeHash[:])
	if g.version.atLeast(0, 6, 0) {
		if err := g.measureDocument(); err != nil {
			return err
		}
	}
	g.emit("instance-id", g.instanceID)
	g.emit("boot-mr-done", nil)
	if !g.version.atLeast(0, 6, 0) {
		g.emit("mr-kms", mrKMS[:])
	}
	g.emit("os-image-hash", g.image.hash[:])
	g.emit("key-provider", provider)
	if g.version.atLeast(0, 5, 5) {
		if compose.StorageFS == "" {
			compose.StorageFS = "zfs"
		}
		g.emit("storage-fs", []byte(compose.StorageFS))
	}
	if cfg.Faults.ExtraBootEvent != "" {
		g.emit(cfg.Faults.ExtraBootEvent, nil)
	}
	if !cfg.Faults.NoSystemReady {
		g.emit("system-ready", nil)
	}

	g.report = Report{TDAttributes: HealthyTDAttributes, XFAM: HealthyXFAM, MRTD: g.image.mrtd}
	g.report.TEETCBSVN = teeTCBSVN
	if err := g.configure(providerID); err != nil {
		return err
	}
	if cfg.Faults.ForeignConfig {
		g.report.MRConfigID[1] ^= 1
	}
	copy(g.report.RTMR[:3], g.image.rtmr[:])
	if cfg.Faults.DebugTD {
		g.report.TDAttributes |= 1
	}
	return nil
}

// emit extends RTMR3. The caller owns g or holds mu.
func (g *Guest) emit(name string, payload []byte) {
	ev := newRuntimeEvent(name, append([]byte(nil), payload...))
	g.events = append(g.events, ev)
	g.rtmr3 = extend(g.rtmr3, ev.Digest)
}
