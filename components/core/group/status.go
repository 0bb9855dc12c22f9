package group

import (
	"slices"
	"strings"
	"time"

	"cadre.dev/core/queue"
)

// Condition is one judgement about a group or a Slot.
type Condition struct {
	Type    string    `json:"type"`
	Status  bool      `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// Status is the leader's report about a group at groups/<g>/status.
type Status struct {
	Group string `json:"group"`
	// ObservedIndex is the KV index of the spec that this status describes (R144).
	ObservedIndex uint64 `json:"observed_index"`
	// Generation counts accepted spec edits that changed the target Revision or size.
	Generation uint64 `json:"generation"`
	// Target is the Revision of the spec; Stable is the last Revision whose rollout completed (R5).
	Target string `json:"target_revision,omitempty"`
	// TargetNumber is the target's place in the group's order, shown as #7.
	TargetNumber uint64 `json:"target_number,omitempty"`
	Stable       string `json:"stable_revision,omitempty"`
	// FailedRevisions never became available somewhere (R90).
	FailedRevisions []string `json:"failed_revisions,omitempty"`
	Rollout         string   `json:"rollout,omitempty"`
	RolloutState    string   `json:"rollout_state,omitempty"`
	// Message states in one line the present activity or the reason of the wait (R138).
	Message     string      `json:"message,omitempty"`
	Replicas    int         `json:"replicas"`
	Available   int         `json:"available"`
	Updated     int         `json:"updated"`
	Unavailable int         `json:"unavailable"`
	Transfers   int         `json:"transfers"`
	Conditions  []Condition `json:"conditions,omitempty"`
	// Instances by ordinal. The record has none: each instance has its own record at
	// groups/<g>/slots/<slot>, so that no record grows with the group. Readers join them.
	Instances []InstanceStatus `json:"instances,omitempty"`
	Paused    bool             `json:"paused,omitempty"`
	// Queue is the group's place at the limits of the cluster; absent: the cluster has no limits.
	Queue *queue.Place `json:"queue,omitempty"`
	Term  uint64       `json:"term"`
	// At is when it last said something new, by the clock of the leader of Term.
	At time.Time `json:"at"`
}

// Hold is one reason why the next step of a Slot waits.
type Hold struct {
	// Predicate is a stable name, e.g. "max_unavailable" (R140).
	Predicate string `json:"predicate"`
	Message   string `json:"message"`
}

// Override is an operator's override on a Slot.
type Override struct {
	// From lists the activities that an exclusion covers: rollout, healing, or both.
	From   []string `json:"from,omitempty"`
	Reason string   `json:"reason,omitempty"`
	By     string   `json:"by,omitempty"`
	// Until is when the override expires, by the clock of the reporting coordinator; zero: no
	// expiry.
	Until time.Time `json:"until,omitzero"`
	// LeftSeconds is the time until the override expires, independent of the reader's clock.
	// Answers of the API have it, records do not.
	LeftSeconds int64 `json:"left_seconds,omitempty"`
}

// The values of OwnEnv and OwnInstanceType in an InstanceStatus.
const (
	OwnApplied   = "applied"
	OwnUnapplied = "unapplied"
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
	// Node is the id of the CVM's node, NodeName and Region are the platform's words for it. Answers of
	// the API have them; records do not, because an older coordinator could not read them.
	Node     string `json:"node,omitempty"`
	NodeName string `json:"node_name,omitempty"`
	Region   string `json:"region,omitempty"`
	VIP      string `json:"vip,omitempty"`
	BootID   string `json:"boot_id,omitempty"`
	// Assigned is the leader's last decision, Observed the Revision that attestation proved (R4).
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
	// Heals are the automatic repairs of the Slot; nil: none that counts.
	Heals *Heals `json:"heals,omitempty"`
	// OwnEnv is the state of the Slot's own env values: applied, unapplied, or empty for a Slot
	// that has none and received none (R143).
	OwnEnv string `json:"own_env,omitempty"`
	// OwnInstanceType is the state of the Slot's own size, in the same words. Unapplied is also a CVM
	// whose size the platform shows to be another one than its Revision's. Answers of the API have it;
	// records do not, because an older coordinator could not read it.
	OwnInstanceType string `json:"own_instance_type,omitempty"`
	// Extra: the Slot is there for the time of a rollout (max_surge), and goes with its disk
	// when that ends.
	Extra bool `json:"extra,omitempty"`
	// Drain, Protection and Exclusion are an operator's overrides on the Slot, in force (R139).
	Drain      *Override `json:"drain,omitempty"`
	Protection *Override `json:"protection,omitempty"`
	Exclusion  *Override `json:"exclusion,omitempty"`
	// LastRefusal is the code and text of the last refused admission, if it is newer than the last success.
	LastRefusal string `json:"last_refusal,omitempty"`
	// Holds are the reasons for which the Slot's next step waits (R138); empty when it needs none,
	// or makes one.
	Holds []Hold `json:"holds,omitempty"`
}

// Unapplied lists the Slot's own settings that wait for a step, by their names in the spec.
func (i InstanceStatus) Unapplied() (settings []string) {
	if i.OwnEnv == OwnUnapplied {
		settings = append(settings, "env")
	}
	if i.OwnInstanceType == OwnUnapplied {
		settings = append(settings, "instance_type")
	}
	return settings
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
	// Node is the platform's node where a listing last showed the bound CVM; empty: never shown. It is
	// written only where the group's platform lists several hosts on their own (vmm) or the spec has a
	// placement: an older coordinator cannot read a record with a new field, and must go on reading
	// those of a group that uses nothing new.
	Node string `json:"node,omitempty"`
	// DataFormat is the version of the data on the Slot's disk, as its driver last reported it; empty: not
	// known. It is written only where RecordsData, for the same reason.
	DataFormat string `json:"data_format,omitempty"`
	// OwnEnv names the values of env of its own that the Slot's CVM was given last (Spec.OwnEnv).
	OwnEnv string `json:"own_env,omitempty"`
	// Assigned is the Revision that the leader last decided for this Slot (R5).
	Assigned string `json:"assigned_revision,omitempty"`
	// ConfigVersion grows with each change that the agent must see.
	ConfigVersion uint64 `json:"config_version"`
	// AvailableSince is when the Slot last became available except for min_ready (R8); zero when it is not.
	AvailableSince time.Time `json:"available_since,omitzero"`
	// AvailableBoot is the last Boot that was available, before min_ready is counted.
	// AvailableSince is its clock: another Boot restarts the clock (R8). Failures of this Boot
	// count (R113).
	AvailableBoot string `json:"available_boot,omitempty"`
	// UnavailableSince is when the Slot last became unavailable; zero while the Slot is available,
	// not counting min_ready. It survives a change of leader, so that a new leader does not take a
	// Slot without heartbeats for a lost one (R10).
	UnavailableSince time.Time `json:"unavailable_since,omitzero"`
	// Flaps are the times when the Slot became unavailable without a step, oldest first: the last
	// one, and the ones of the ten minutes before it (R9). Ten minutes of availability clear the
	// list.
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
	// Heals are the automatic repairs of the Slot; nil: none that counts.
	Heals *Heals `json:"heals,omitempty"`
	// Recovery is how far a member that recovers has come; nil: it was ready since, or reports no lag (R38).
	Recovery *Recovery `json:"recovery,omitempty"`
	// Membership is the Slot's part in the workload's set of members; nil: none now.
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
	r.InstanceID, r.VMUUID, r.Node, r.DataFormat, r.AvailableBoot, r.AvailableSince, r.Flaps = "", "", "", "", "", time.Time{}, nil
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
	// ComposeHash is the hash of the app-compose.json that was last judged for this Revision, 64
	// hex characters. The text has its record at app-compose/<compose hash>.
	ComposeHash string    `json:"compose_hash,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}
