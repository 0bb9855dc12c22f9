package policy

import "time"

// Claims are the statements of verified Evidence about one Boot.
type Claims struct {
	AppID       string `json:"app_id"`
	InstanceID  string `json:"instance_id"`
	ComposeHash string `json:"compose_hash"`
	// ComposeText is docker_compose_file of the attested app-compose.json.
	ComposeText string `json:"-"`
	// AllowedEnvs are the names that the encrypted environment may set, by the
	// attested app-compose.json. Their values are not measured.
	AllowedEnvs []string `json:"-"`
	// AppComposeProblem is why the attested app-compose.json is not acceptable by the
	// closed list of package appcompose; empty when it is.
	AppComposeProblem string `json:"-"`
	KeyProviderName   string `json:"key_provider_name"`
	KeyProviderID     string `json:"key_provider_id"`
	MRTD              string `json:"mrtd"`
	RTMR0             string `json:"rtmr0"`
	RTMR1             string `json:"rtmr1"`
	RTMR2             string `json:"rtmr2"`
	// OSImageHash is the measured os-image-hash event; empty when there is none.
	OSImageHash string `json:"os_image_hash,omitempty"`
	// TCB is the collateral's verdict on the machine; its zero value: not evaluated.
	TCB TCB `json:"tcb"`
	// Simulated is true when the chain ends at a root that is not Intel's.
	Simulated bool `json:"simulated,omitempty"`
	// Machine names the physical machine, by its certificate: a word, a colon and 32 hex digits;
	// empty: the certificate names none. It is never recorded: records have a keyed hash of it.
	Machine string `json:"-"`
}

// TCB is the state of the platform, the TDX module and the quoting enclave as
// Intel's signed collateral judges them.
type TCB struct {
	// Status is the worst of the three, in Intel's words: UpToDate,
	// SWHardeningNeeded, ConfigurationNeeded, ConfigurationAndSWHardeningNeeded,
	// OutOfDate, OutOfDateConfigurationNeeded, Revoked. Empty: not evaluated.
	Status string `json:"status,omitempty"`
	// Advisories are the ids that the matching levels name, sorted.
	Advisories []string `json:"advisories,omitempty"`
	// FMSPC names the family of the machine, 12 lower-case hex characters.
	FMSPC string `json:"fmspc,omitempty"`
	// EvaluationNumber is the lowest tcbEvaluationDataNumber of the collateral used.
	EvaluationNumber uint32 `json:"evaluation_number,omitempty"`
	// ValidUntil is when the first part of the collateral ends.
	ValidUntil time.Time `json:"valid_until,omitzero"`
	// ReplacedAt is the signed date (tcbDate) of the level that took the place of the
	// machine's own as the newest; of several parts that are out of date the first. Zero
	// unless the Status is OutOfDate and every part that is not UpToDate has such a date.
	ReplacedAt time.Time `json:"replaced_at,omitzero"`
	// Early is the verdict of Intel's early set on the same machine. It warns and decides nothing.
	Early EarlyTCB `json:"early,omitzero"`
}

// EarlyTCB is the verdict of Intel's early set, which is signed about a year before the standard
// set follows. Its zero value: not evaluated.
type EarlyTCB struct {
	// Status, EvaluationNumber and ReplacedAt are as in TCB.
	Status           string    `json:"status,omitempty"`
	EvaluationNumber uint32    `json:"evaluation_number,omitempty"`
	ReplacedAt       time.Time `json:"replaced_at,omitzero"`
}

// Statement is the Boot's own assertion, to which the quote commits. Every field that Claims also
// have must be equal (ATT-23).
type Statement struct {
	Cluster     string
	Group       string
	Slot        string
	AppID       string
	InstanceID  string
	ComposeHash string
}

// AllowedRevision is one Revision that a Slot may run now.
type AllowedRevision struct {
	Revision string `json:"revision"`
	// ComposeHash, 64 hex characters.
	ComposeHash string `json:"compose_hash"`
	// ComposeText must equal the attested docker_compose_file; carried here by digest.
	ComposeTextSHA256 string `json:"compose_text_sha256"`
	// EnvNames are the names of the Revision's env, sorted, with commas between them
	// (appcompose.JoinNames). The attested allowed_envs may name these and Cadre's
	// locators, nothing else.
	EnvNames string `json:"env_names,omitempty"`
	OSImage  string `json:"os_image"`
	// Number is compared with the floor: the number of the group's first Revision with the same
	// measured content. 0: not numbered, below every floor.
	Number uint64 `json:"number,omitempty"`
	// Approved: a person approved the Revision as its compose hash.
	Approved bool `json:"approved,omitempty"`
	// Refresh: a step moves the Slot to the Revision without another Boot. Only then does the
	// holding Boot change to this Revision when it attests again. Otherwise a Boot with the same
	// measured content stays at the Revision of its admission.
	Refresh bool `json:"refresh,omitempty"`
}

// SlotPolicy is the record at policy/slots/<slot>.
type SlotPolicy struct {
	Group   string            `json:"group"`
	Slot    string            `json:"slot"`
	Allowed []AllowedRevision `json:"allowed"`
	// AppID and InstanceID are the Slot's binding; InstanceID empty: no instance is bound and no
	// Boot is admitted.
	AppID      string `json:"app_id"`
	InstanceID string `json:"instance_id"`
	// RequireApproval rejects Revisions that are not Approved.
	RequireApproval bool `json:"require_approval,omitempty"`
	// Floor rejects Revisions with a lower number; 0: none.
	Floor uint64 `json:"floor,omitempty"`
	// Revoked are the revocations that apply to the Slot. Coordinators add the revocations that
	// they read themselves, so that a revocation takes effect without a leader.
	Revoked []Revocation `json:"revoked,omitempty"`
	// Epoch grows with each change that may take something away from the admitted
	// Boot; stamped on each Admission. A Boot with an older one attests again.
	Epoch uint64 `json:"epoch"`
	Term  uint64 `json:"term"`
}

// Admission is the record at admissions/<slot>: which Boot holds the Slot.
type Admission struct {
	Group      string `json:"group"`
	Slot       string `json:"slot"`
	BootID     string `json:"boot_id"`
	InstanceID string `json:"instance_id"`
	AppID      string `json:"app_id"`
	Revision   string `json:"revision"`
	// Epoch of the policy that was in force.
	Epoch uint64 `json:"epoch"`
	// Generation grows with each Boot that takes the Slot.
	Generation uint64    `json:"generation"`
	AdmittedAt time.Time `json:"admitted_at"`
	// ExpiresAt is when the last of the credentials ends that were given by this record.
	ExpiresAt time.Time `json:"expires_at"`
	// AttestedAt is when the evidence was verified that the credentials rest on.
	AttestedAt time.Time `json:"attested_at,omitzero"`
	// Claims of that evidence; renewals are judged by them.
	Claims Claims `json:"claims,omitzero"`
	// TokenAccessors are the Consul tokens that were issued with it.
	TokenAccessors []string `json:"token_accessors,omitempty"`
	// TokensAt is when the newest of them were issued.
	TokensAt time.Time `json:"tokens_at,omitzero"`
	// TokenRules names the rights of the newest token; another name calls for another token.
	TokenRules string `json:"token_rules,omitempty"`
	By         string `json:"by"`
	Simulated  bool   `json:"simulated,omitempty"`
	// Contest is about Boots that take the Slot from each other.
	Contest Contest `json:"contest,omitzero"`
}

// Refusal is the record at refusals/<slot>: the last refused admission.
type Refusal struct {
	Slot       string `json:"slot"`
	BootID     string `json:"boot_id"`
	InstanceID string `json:"instance_id"`
	Code       Code   `json:"code"`
	Message    string `json:"message"`
	// Proven: the Boot proved that it runs in the Slot's own CVM. Any client that knows the
	// instance id could have sent an unproven request, so no decision follows from one.
	Proven bool `json:"proven,omitempty"`
	// Since is when this Boot was refused so first, At when it was last.
	Since time.Time `json:"since,omitzero"`
	At    time.Time `json:"at"`
	By    string    `json:"by"`
}

// Began is when the Boot was refused first, as far as that is recorded.
func (r Refusal) Began() time.Time {
	if r.Since.IsZero() {
		return r.At
	}
	return r.Since
}

// ImagePolicy holds the measurements of each named OS image, and the trust anchors of the whole
// cluster. It comes from the coordinator's measured compose.
type ImagePolicy struct {
	// Images by OS image name.
	Images map[string][]Measurement `json:"images"`
	// KeyProviderName and KeyProviderID are mandatory pins (ATT-21).
	KeyProviderName string `json:"key_provider_name"`
	KeyProviderID   string `json:"key_provider_id"`
	// AllowSimulated admits Claims under a root that is not Intel's. It is true
	// only where the measured compose names such a root.
	AllowSimulated bool `json:"allow_simulated"`
	// TCB says which TCB states are tolerated; its zero value: UpToDate only.
	TCB TCBPolicy `json:"tcb,omitzero"`
}

// Measurement is one accepted set of boot measurements, lower-case hex.
type Measurement struct {
	MRTD  string `json:"mrtd"`
	RTMR0 string `json:"rtmr0"`
	RTMR1 string `json:"rtmr1"`
	RTMR2 string `json:"rtmr2"`
}

// Code is a stable reason from the threat model, section 10.
type Code string

// Decision is the outcome of Appraise. The zero value denies.
type Decision struct {
	Allowed  bool
	Revision string
	Code     Code
	Message  string
	// Proven: the evidence belongs to the Slot's bound instance, under an OS image that this
	// cluster names. The refused client is then that CVM, and not a stranger that names it.
	Proven bool
}
