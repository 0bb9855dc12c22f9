package group

import (
	"slices"
	"strings"
	"time"
)

// Condition is one judgement about a group or a Slot.
type Condition struct {
	Type    string    `json:"type"`
	Status  bool      `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// Status is what the leader reports about a group at groups/<g>/status.
type Status struct {
	Group string `json:"group"`
	// ObservedIndex is the KV index of the spec that this status speaks of (R144).
	ObservedIndex uint64 `json:"observed_index"`
	// Generation counts accepted spec edits that changed the target Revision or size.
	Generation uint64 `json:"generation"`
	// Target is what the spec asks for; Stable the last Revision whose rollout completed (R5).
	Target string `json:"target_revision,omitempty"`
	// TargetNumber is the target's place in the group's order, shown as #7.
	TargetNumber uint64 `json:"target_number,omitempty"`
	Stable       string `json:"stable_revision,omitempty"`
	// FailedRevisions never became available somewhere (R90).
	FailedRevisions []string `json:"failed_revisions,omitempty"`
	Rollout         string   `json:"rollout,omitempty"`
	RolloutState    string   `json:"rollout_state,omitempty"`
	// Message says in one line what happens or what is waited for (R138).
	Message     string      `json:"message,omitempty"`
	Replicas    int         `json:"replicas"`
	Available   int         `json:"available"`
	Updated     int         `json:"updated"`
	Unavailable int         `json:"unavailable"`
	Transfers   int         `json:"transfers"`
	Conditions  []Condition `json:"conditions,omitempty"`
	// Instances by ordinal. The record has none: each stands at groups/<g>/slots/<slot>,
	// so that no record grows with the group, and readers join them.
	Instances []InstanceStatus `json:"instances,omitempty"`
	Paused    bool             `json:"paused,omitempty"`
	Term      uint64           `json:"term"`
	// At is when it last said something new, by the clock of the leader of Term.
	At time.Time `json:"at"`
}

// Hold is one reason why the next step of a Slot waits.
type Hold struct {
	// Predicate is a stable name, e.g. "max_unavailable" (R140).
	Predicate string `json:"predicate"`
	Message   string `json:"message"`
}

// Override is what an operator set on a Slot.
type Override struct {
	// From is what an exclusion leaves the Slot out of: rollout, healing, or both.
	From   []string `json:"from,omitempty"`
	Reason string   `json:"reason,omitempty"`
	By     string   `json:"by,omitempty"`
	// Until is when it ends by itself, by the clock of the coordinator that says so; zero: when it is
	// taken back.
	Until time.Time `json:"until,omitzero"`
	// LeftSeconds is how much of its time is left, whoever's clock is right. Answers of the API have it,
	// records do not.
	LeftSeconds int64 `json:"left_seconds,omitempty"`
}

// What OwnEnv of an InstanceStatus says.
const (
	OwnEnvApplied   = "applied"
	OwnEnvUnapplied = "unapplied"
)

// InstanceStatus is the state of one Slot (R137), as the leader reports it at
// groups/<g>/slots/<slot>.
type InstanceStatus struct {
	Group      string `json:"group"`
	Slot       string `json:"slot"`
	Ordinal    int    `json:"ordinal"`
	AppID      string `json:"app_id,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	VMUUID     string `json:"vm_uuid,omitempty"`
	VIP        string `json:"vip,omitempty"`
	BootID     string `json:"boot_id,omitempty"`
	// Assigned is what the leader last decided, Observed what attestation proved (R4).
	Assigned string `json:"assigned_revision,omitempty"`
	Observed string `json:"observed_revision,omitempty"`
	// State is one word for people.
	State          SlotState  `json:"state"`
	Health         string     `json:"health"`
	Reason         string     `json:"reason,omitempty"`
	Role           string     `json:"role,omitempty"`
	LagBytes       *int64     `json:"lag_bytes,omitempty"`
	PlatformStatus string     `json:"platform_status,omitempty"`
	Operation      string     `json:"operation,omitempty"`
	Phase          string     `json:"phase,omitempty"`
	Since          *time.Time `json:"since,omitempty"`
	// Simulated: the Boot was admitted under a root of trust that is not Intel's.
	Simulated bool `json:"simulated,omitempty"`
	// Heals are the attempts to repair it by itself; nil: none that counts.
	Heals *Heals `json:"heals,omitempty"`
	// OwnEnv tells of values of env that the Slot has of its own: applied, unapplied, or empty
	// where it has none and was given none (R143).
	OwnEnv string `json:"own_env,omitempty"`
	// Extra: the Slot is there for the time of a rollout (max_surge), and goes with its disk
	// when that ends.
	Extra bool `json:"extra,omitempty"`
	// Drain, Protection and Exclusion are an operator's overrides on the Slot, in force (R139).
	Drain      *Override `json:"drain,omitempty"`
	Protection *Override `json:"protection,omitempty"`
	Exclusion  *Override `json:"exclusion,omitempty"`
	// LastRefusal is the code and text of the last refused admission, if it is newer than the last success.
	LastRefusal string `json:"last_refusal,omitempty"`
	// Holds are what the Slot's next step waits for (R138); empty when it needs none, or
	// makes one.
	Holds []Hold `json:"holds,omitempty"`
}

// SlotRecord binds a Slot to its Instance at slots/<g>/<slot>. Written by the leader only.
type SlotRecord struct {
	Group   string `json:"group"`
	Slot    string `json:"slot"`
	Ordinal int    `json:"ordinal"`
	// VIP is given once and kept.
	VIP   string `json:"vip"`
	AppID string `json:"app_id,omitempty"`
	// InstanceID is bound at the first listing that shows it and never changes without an operator.
	InstanceID string `json:"instance_id,omitempty"`
	VMUUID     string `json:"vm_uuid,omitempty"`
	// PlatformName is the CVM's name on the platform, unique in the workspace.
	PlatformName string `json:"platform_name"`
	// OwnEnv names the values of env of its own that the Slot's CVM was given last (Spec.OwnEnv).
	OwnEnv string `json:"own_env,omitempty"`
	// Assigned is the Revision that the leader last decided for this Slot (R5).
	Assigned string `json:"assigned_revision,omitempty"`
	// ConfigVersion grows with each change that the agent must see.
	ConfigVersion uint64 `json:"config_version"`
	// AvailableSince is when the Slot last became available except for min_ready (R8); zero when it is not.
	AvailableSince time.Time `json:"available_since,omitzero"`
	// AvailableBoot is the Boot that was available last, except for min_ready, and whose clock AvailableSince
	// is: another Boot starts it anew (R8). Failures of this one count (R113).
	AvailableBoot string `json:"available_boot,omitempty"`
	// UnavailableSince is when the Slot was last seen to become unavailable; zero while
	// it is available but for min_ready. Survives a change of leader, so that a silent
	// Slot is not taken for a lost one by a leader that only just started (R10).
	UnavailableSince time.Time `json:"unavailable_since,omitzero"`
	// Flaps are when the Slot stopped being available though no step took it away, oldest first: the last
	// one, and those of the ten minutes before it (R9); none once it is available ten minutes after that.
	Flaps []time.Time `json:"flaps,omitempty"`
	// WasAvailableAt is the Revision at which the Slot was last available (R90).
	WasAvailableAt string `json:"was_available_at,omitempty"`
	// Incarnation counts the CVMs that were bound to the Slot before this one, Lineage
	// names the last of them, newest last.
	Incarnation uint64 `json:"incarnation,omitempty"`
	Lineage     []Past `json:"lineage,omitempty"`
	// SilenceFrom is since when its agent is silent, or, where much of the fleet fell silent with it, from
	// when on that counts towards lost_after (R120); zero: it is heard.
	SilenceFrom time.Time `json:"silence_from,omitzero"`
	// DownSince is when its process was first reported down by its driver; zero while it is not.
	DownSince time.Time `json:"down_since,omitzero"`
	// MissedSince is when a listing first lacked the bound CVM; zero while it is listed.
	MissedSince time.Time `json:"missed_since,omitzero"`
	// Heals are the attempts to repair the Slot by itself; nil: none that counts.
	Heals *Heals `json:"heals,omitempty"`
	// Recovery is how far a member that recovers has come; nil: it was ready since, or reports no lag (R38).
	Recovery *Recovery `json:"recovery,omitempty"`
	// Membership is the Slot's part in who belongs to the workload's set; nil: none now.
	Membership *Membership `json:"membership,omitempty"`
	// Extra: the Slot was made for the time of a rollout (max_surge), and goes with its disk
	// when that ends.
	Extra bool `json:"extra,omitempty"`
}

// Recovery is the least lag that a Boot reported while it recovered.
type Recovery struct {
	BootID   string `json:"boot_id"`
	LagBytes int64  `json:"lag_bytes"`
	// At is when the lag last fell, to within a minute.
	At time.Time `json:"at"`
}

// Past is a CVM that filled a Slot before.
type Past struct {
	InstanceID string    `json:"instance_id,omitempty"`
	VMUUID     string    `json:"vm_uuid,omitempty"`
	EndedAt    time.Time `json:"ended_at"`
	// Why it does not any more, at most 256 bytes.
	Why string `json:"why,omitempty"`
}

// keptLineage bounds Lineage.
const keptLineage = 8

// Unbound is r with the CVM that it is bound to moved into its lineage.
func (r SlotRecord) Unbound(why string, now time.Time) SlotRecord {
	if r.InstanceID != "" || r.VMUUID != "" {
		if len(why) > 256 {
			why = strings.ToValidUTF8(why[:256], "")
		}
		r.Lineage = append(slices.Clone(r.Lineage), Past{InstanceID: r.InstanceID, VMUUID: r.VMUUID, EndedAt: now, Why: why})
		r.Lineage = r.Lineage[max(0, len(r.Lineage)-keptLineage):]
	}
	r.Incarnation++
	r.InstanceID, r.VMUUID, r.AvailableBoot, r.AvailableSince, r.Flaps = "", "", "", time.Time{}, nil
	return r
}

// RevisionRecord is the immutable content of a Revision at revisions/<digest>.
type RevisionRecord struct {
	Digest   string   `json:"digest"`
	Group    string   `json:"group"`
	Template Template `json:"template"`
	// AgentSpec of the agents in Slots that run this Revision.
	AgentSpec AgentSpec `json:"agent_spec,omitzero"`
	// Number is the place in the group's order, shown as #7: by first use, so that
	// content that comes back keeps it. 0: recorded before there were numbers.
	Number uint64 `json:"number,omitempty"`
	// RestartToken that went into the digest.
	RestartToken string `json:"restart_token,omitempty"`
	// ComposeHash is that of the app-compose.json which was judged for this Revision
	// last, 64 hex characters; the text stands at app-compose/<compose hash>.
	ComposeHash string    `json:"compose_hash,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}
