package store

import "time"

const (
	// RestoredKey says which backup these records come from. A coordinator that restores writes it
	// first, and checks its index with each record.
	RestoredKey = "restored"
	// LastBackupKey has the time and the digest of the last backup.
	LastBackupKey = "control/backup"
)

// LastBackup is the record at control/backup, written with the operator's own token.
type LastBackup struct {
	At time.Time `json:"at"`
	// SHA256 of the whole file, 64 lower-case hex digits.
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Records int    `json:"records"`
	By      string `json:"by"`
}

// RestoreMargin is more than any Term or state grows between a backup and the loss of the records.
const RestoreMargin = 1 << 20

// Restored is the record at restored.
type Restored struct {
	// At is when the restore began, and By the coordinator that wrote the records.
	At time.Time `json:"at"`
	By string    `json:"by"`
	// BackupAt is the time of the backup, and SHA256 the digest of its file.
	BackupAt time.Time `json:"backup_at"`
	SHA256   string    `json:"sha256"`
	// Term and State are RestoreMargin above those of the backup: the records count as older than
	// the last seen ones, until an operator accepts the restore. The next leader resumes above both.
	Term  uint64 `json:"term"`
	State uint64 `json:"state"`
	// Attempt distinguishes two restores of one file.
	Attempt string `json:"attempt"`
}

// leftOut has the reason for each kind of record that no backup contains.
var leftOut = map[string]string{
	"groups/<group>/slots/<slot>":     "the leader writes it again",
	"admissions/<slot>":               "each Boot proves itself again",
	"refusals/<slot>":                 "it is written again with the next refusal",
	"proofs/<slot>":                   "the evidence is of a present Boot, which proves itself again",
	"admission/nonces/<nonce>":        "a challenge ends with its connection",
	"machine-turns/<group>":           "it orders the admissions of a moment",
	"lease/boots/<slot>":              "its session ends with the coordinators",
	LeaseKey:                          "its session ends with the coordinators",
	"control/override/<group>/<hold>": "an override belongs to its rollout, and the operator repeats it",
	"control/queue/<id>":              "a request acts once, and the operator repeats it",
	"control/delete/<group>":          "a request to delete is repeated by the operator",
	"control/delete-disks/<group>":    "a request to delete is repeated by the operator",
	"control/adopt/<group>":           "a request acts once, and the operator repeats it",
	"control/rotate/<group>/<secret>": "a request acts once, and the operator repeats it",
	"control/seal/<group>/<secret>":   "a request acts once, and the operator repeats it",
	"operators/<sha256>":              "Consul's tokens are in no backup; the first use creates the token again",
	LastBackupKey:                     "a restored cluster needs a new backup",
	RestoredKey:                       "a restore writes its own",
}

// backedUp are the kinds of records that a backup contains.
var backedUp = map[string]bool{
	ClusterIDKey: true, "groups/<group>/spec": true, "groups/<group>/accepted": true, "applied/<group>": true, "groups/<group>/status": true, "deployments/<deployment>": true, "deployment-specs/<deployment>/<sha256>": true,
	"revisions/<digest>": true, "app-compose/<hash>": true, "slots/<group>/<slot>": true, "addresses/<group>": true, "routes/<route>": true,
	"servicemesh/<group>": true, "operations/<id>": true, "rollouts/<id>": true, "policy/slots/<slot>": true, "policy/groups/<group>": true,
	TCBLedgerKey: true, "decisions/<slot>": true, "machines/<slot>": true, "collateral/<fmspc>": true, "control/pause/<group>": true, "control/freeze/<scope>": true,
	"control/drain/<slot>": true, "control/protect/<slot>": true, "control/exclude/<slot>": true, "control/gate/<group>/<gate>": true, "control/gate/<group>/<gate>/<slot>": true, "control/approvals/<revision>": true,
	"control/revocations/<revocation>": true, "control/floor/<scope>": true, "control/tcb-exceptions/<id>": true, "control/collateral/<fmspc>": true,
	"control/require-approval": true, "control/limits": true, "control/operators/<operator>": true, "audit/<number>": true, AuditHeadKey: true, "secrets/<group>/<secret>": true, "sealed/<group>/<secret>": true, "control/recover": true, TermKey: true, StateKey: true,
}

// InBackup reports whether a backup contains the records of k. A kind in neither list is in no
// backup, and a test fails.
func (k Kind) InBackup() bool { return backedUp[k.Pattern] }

// WhyNoBackup is why a backup leaves the records of k out; "": it contains them.
func (k Kind) WhyNoBackup() string { return leftOut[k.Pattern] }
