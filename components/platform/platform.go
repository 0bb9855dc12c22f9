package platform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/attest/dstacksdk"
)

// Platform makes, describes and changes CVMs. Every call names exactly one CVM
// (R64). Implementations are safe for concurrent use, serialise creates per
// workspace, and honour ctx.
//
// Errors: calls with an effect have three outcomes. nil is done (accepted);
// an error for which errors.Is(err, ErrRefused) holds certainly had no effect;
// any other error is unknown and must be read back (R65, R66).
type Platform interface {
	// List returns every CVM of the app, or of the workspace when appID is empty.
	// A failed list is an error, never an empty list (R11). A platform of several hosts returns the
	// CVMs of the hosts that answered together with an error that is an *Unanswered; a caller that does
	// not look for it takes the whole list as failed.
	List(ctx context.Context, appID string) ([]Instance, error)
	// Describe returns one CVM; ErrNotFound when there is none.
	Describe(ctx context.Context, vmUUID string) (Instance, error)
	// Provision sends t.AppCompose and asks for the platform's measurement. No effect on any CVM;
	// the platform remembers the content by its hash for a while. vmUUID is a CVM of the app, or
	// empty for a new app (then AppID of the reply is set). The reply passes Check, or the error is
	// ErrMeasuresOther.
	Provision(ctx context.Context, vmUUID string, t Template) (Provisioned, error)
	// Create makes one CVM. The caller has listed by name before (R67).
	Create(ctx context.Context, req CreateRequest) (Instance, error)
	// Update moves one CVM to a provisioned compose hash in place: same disk, same identity. Where
	// Habits.StopFirst holds, it takes the Shape with the content, changes a stopped CVM only, and
	// starts nothing: of a CVM that runs it is ErrBusy.
	Update(ctx context.Context, req UpdateRequest) (Accepted, error)
	// SetOSImage moves one CVM to another OS image in place: same disk, same identity.
	// A running CVM is restarted by it.
	SetOSImage(ctx context.Context, vmUUID, image string) (Accepted, error)
	// Resize gives one CVM another shape in place: same disk, same identity. A running
	// CVM is restarted by it. A disk only grows: a smaller one is ErrRefused. It is one call:
	// where that cannot take the image as well, the image stays, and Accepted.OSImage is false.
	Resize(ctx context.Context, vmUUID string, s Shape) (Accepted, error)
	// Restart restarts one CVM on its disk; its guest is asked to shut down.
	Restart(ctx context.Context, vmUUID string) (Accepted, error)
	// ForceRestart restarts one CVM on its disk without asking its guest, as after a power cut: for
	// a guest that hangs.
	ForceRestart(ctx context.Context, vmUUID string) (Accepted, error)
	// Stop asks the guest to shut down, and returns when that is accepted.
	Stop(ctx context.Context, vmUUID string) (Accepted, error)
	// ForceStop stops one CVM without asking its guest, as after a power cut.
	ForceStop(ctx context.Context, vmUUID string) (Accepted, error)
	Start(ctx context.Context, vmUUID string) (Accepted, error)
	// Delete removes one CVM and its disk; not found is success (R68).
	Delete(ctx context.Context, vmUUID string) error
	// Nodes lists where CVMs can be placed.
	Nodes(ctx context.Context) ([]Node, error)
	// Offer returns the names that a Template may carry. No effect.
	Offer(ctx context.Context) (Offer, error)
	// Habits are constants of the driver.
	Habits() Habits
}

// Habits say how a platform carries changes out.
type Habits struct {
	// Settle is how long after a call its effect may still be hidden: until then a CVM
	// that looks as it was before proves nothing, neither after an unknown outcome nor
	// after an accepted call.
	Settle time.Duration
	// StopFirst: a change of a CVM takes effect at its next start, so the caller stops it, changes it
	// with one Update, and starts it. Elsewhere each change restarts the CVM.
	StopFirst bool
}

// Unanswered is the error of a listing that lacks the CVMs of some nodes. Their CVMs are unknown,
// never gone.
type Unanswered struct {
	Nodes []NodeError
}

// NodeError is why one node did not answer.
type NodeError struct {
	Node string // Node.ID
	Err  error
}

func (u *Unanswered) Error() string {
	text := make([]string, 0, len(u.Nodes))
	for _, n := range u.Nodes {
		text = append(text, fmt.Sprintf("node %s does not answer: %v", n.Node, n.Err))
	}
	return strings.Join(text, "; ")
}

// Shape is the virtual hardware of a CVM that can change in place. A zero field is
// left as it is.
type Shape struct {
	InstanceType string
	DiskGB       int
	// OSImage is for a platform that changes all three with one boot; SetOSImage changes it alone.
	OSImage string
}

// Template is the content of a CVM.
type Template struct {
	// AppCompose is the whole app-compose.json, as it is to be measured. Its name
	// belongs to the app, not to a Slot.
	AppCompose []byte
	// Env is the encrypted environment; AppCompose allows each of its names.
	Env          map[string]string
	InstanceType string
	OSImage      string
	DiskGB       int
	// AppID and AppNonce ask for an application id allotted beforehand (the
	// driver's NextAppID) when a new app is made. Empty: the platform allots one.
	AppID    string
	AppNonce string
}

// CheckEnv reports whether a guest takes the Env of t, given the allowed_envs of AppCompose.
func (t Template) CheckEnv(allowed []string) error {
	for _, name := range dstacksdk.EnvNames(t.Env) {
		if !slices.Contains(allowed, name) {
			// The guest would drop the value without a word.
			return fmt.Errorf("env %q is not in allowed_envs of its app-compose.json", name)
		}
	}
	return dstacksdk.CheckEnv(t.Env)
}

// Provisioned is the platform's answer to Provision, and only a hint: Cadre allows judged bytes,
// and admission decides on the attested ones.
type Provisioned struct {
	AppID string
	// ComposeHash, 64 lower-case hex digits.
	ComposeHash string
	// AppCompose is the platform's own text where it insists on one and shows it; empty: it
	// measures the sent text.
	AppCompose []byte
	// EnvKey is the X25519 key for encrypted env, 32 bytes.
	EnvKey []byte
	// KMS names the key service of EnvKey on the platform; empty: the platform's only one.
	KMS string
}

// Check reports whether the platform that answered p would measure t.AppCompose, or a text that it
// shows. The caller judges that text. The error is ErrMeasuresOther.
func (p Provisioned) Check(t Template) error {
	text, whose := t.AppCompose, "the sent document"
	if len(p.AppCompose) > 0 {
		text, whose = p.AppCompose, "the text that it shows"
	}
	sum := sha256.Sum256(text)
	if hash := hex.EncodeToString(sum[:]); hash != p.ComposeHash {
		return fmt.Errorf("%w: it answers compose hash %.64q, %s hashes to %s", ErrMeasuresOther, p.ComposeHash, whose, hash)
	}
	return nil
}

// CreateRequest makes one CVM.
type CreateRequest struct {
	// Name is unique in the workspace: the Slot's platform name.
	Name string
	// AppID joins an existing app; empty creates the provisioned app.
	AppID string
	// Provisioned must come from Provision of the same template.
	Provisioned Provisioned
	Template    Template
	// Node places the CVM (Node.ID); empty: the platform chooses.
	Node string
	// NotOn are nodes (Node.ID) of which the caller knows that they have no CVM of this name, so that a
	// create in an existing app needs no answer of theirs. A platform without nodes ignores them.
	NotOn []string
}

// UpdateRequest moves one CVM.
type UpdateRequest struct {
	VMUUID      string
	ComposeHash string
	// EnvKey, KMS (both of Provisioned) and Env replace the whole env set; the platform
	// drops it otherwise.
	EnvKey []byte
	KMS    string
	Env    map[string]string
	// Shape is given to a platform with Habits.StopFirst only: another one changes it by Resize and
	// SetOSImage.
	Shape Shape
}

// Accepted is the platform's receipt.
type Accepted struct {
	// Correlation is the platform's handle, empty when it gives none.
	Correlation string
	// NoChange: the platform says there was nothing to do.
	NoChange bool
	// OSImage: a Resize changed the image of its Shape too.
	OSImage bool
}

// Instance is the platform's view of one CVM. Never evidence.
type Instance struct {
	// ID is the platform's own id (path segment); VMUUID names the CVM.
	ID          string
	VMUUID      string
	Name        string
	AppID       string
	InstanceID  string
	Status      string // lower case, e.g. "running", "stopped", "updating"
	InProgress  bool
	ComposeHash string
	// OSImage, InstanceType and DiskGB are the present values of the CVM, or the values of its next
	// boot; zero: unknown.
	OSImage      string
	InstanceType string
	DiskGB       int
	// Node is the Node.ID of the CVM's place; empty: unknown.
	Node      string
	BootError string
	UpdatedAt time.Time
	// EnvKey is the app's X25519 key for encrypted env, nil when the reply has none.
	EnvKey []byte
	// GatewayDomain is the base domain of the CVM's gateway; empty: unknown.
	GatewayDomain string
}

// GatewayDomain is the one base domain of the gateways of these CVMs. The error says why there
// is none, and that it has to be named then.
func GatewayDomain(list []Instance) (string, error) {
	var domain string
	for _, i := range list {
		switch {
		case i.GatewayDomain == "" || i.GatewayDomain == domain:
		case domain == "":
			domain = i.GatewayDomain
		default:
			return "", fmt.Errorf("the platform names two gateway domains, %s and %s: name the one to use", domain, i.GatewayDomain)
		}
	}
	if domain == "" {
		return "", errors.New("the platform names no gateway domain, as of an account without a running CVM: name it; it is the part behind the first dot in a CVM's public URL")
	}
	return domain, nil
}

// Running reports a stable running CVM.
func (i Instance) Running() bool { return i.Status == "running" && !i.InProgress }

// StaysDown reports a CVM that is down and that the platform does not bring up: an operator, the guest
// or a loss of power stopped it.
func (i Instance) StaysDown() bool {
	return (i.Status == "stopped" || i.Status == "exited") && !i.InProgress
}

// Node is a place for CVMs.
type Node struct {
	ID       string
	Name     string
	Region   string
	Images   []string
	CVMSlots int
}

var (
	// ErrRefused means: the call certainly had no effect.
	ErrRefused = errors.New("refused by the platform")
	// ErrNotFound means: the CVM does not exist. Also ErrRefused.
	ErrNotFound = errors.New("no such instance on the platform")
	// ErrBusy means: another operation is running on this CVM; certainly no effect; retry later.
	ErrBusy = errors.New("platform is busy with this instance")
	// ErrMeasuresOther means: the platform would measure other bytes than the sent ones, and shows
	// none with the hash that it names. Also ErrRefused: nothing was made.
	ErrMeasuresOther = errors.New("the platform would measure another app-compose.json")
	// ErrNotOffered means: the platform has no OS image or instance type of that name.
	// Also ErrRefused.
	ErrNotOffered = errors.New("not offered by the platform")
	// ErrSuspended means: the workspace may change nothing until its owner settles with the
	// platform. Also ErrRefused.
	ErrSuspended = errors.New("WORKSPACE_SUSPENDED: the workspace may change nothing until its owner settles with the platform")
	// ErrOnChain means: the change waits for a registration on a chain, which is not
	// supported. Also ErrRefused.
	ErrOnChain = errors.New("CHAIN_REGISTRATION_REQUIRED: the platform wants a registration on a chain first")
	// ErrThrottled means: a property of the account, not of the CVM (R73).
	ErrThrottled = errors.New("throttled by the platform")
)
