package policy

// Class names the reaction to a Code (threat model, section 10).
type Class string

const (
	// ClassCaller: the caller's fault, permanent.
	ClassCaller Class = "C"
	// ClassPolicy: refused until policy or state changes.
	ClassPolicy Class = "P"
	// ClassRetry: ask again later.
	ClassRetry Class = "R"
	// ClassAlarm: a security alarm. The class alone triggers no page and no halt. Refusals of every
	// class are logged, counted by code, and kept in the Slot's refusal and decisions.
	ClassAlarm Class = "A"
	// ClassState: a state conflict; read again, then decide.
	ClassState Class = "S"
)

// The closed list of codes. No other one is ever produced.
const (
	CodeBadRequest            Code = "BAD_REQUEST"
	CodeStatementNoncanonical Code = "STATEMENT_NONCANONICAL"
	CodeQuoteMalformed        Code = "QUOTE_MALFORMED"
	CodeUnsupportedVersion    Code = "UNSUPPORTED_VERSION"
	CodeUnsupportedEncoding   Code = "UNSUPPORTED_ENCODING"
	CodeNameInvalid           Code = "NAME_INVALID"

	CodeRequestTooLarge Code = "REQUEST_TOO_LARGE"

	CodeNonceInvalid Code = "NONCE_INVALID"

	CodeNonceWrongContext      Code = "NONCE_WRONG_CONTEXT"
	CodeChannelBindingMismatch Code = "CHANNEL_BINDING_MISMATCH"
	CodeReportDataMismatch     Code = "REPORT_DATA_MISMATCH"
	CodeStatementMismatch      Code = "STATEMENT_MISMATCH"

	CodeQuoteInvalid          Code = "QUOTE_INVALID"
	CodeQuoteRevoked          Code = "QUOTE_REVOKED"
	CodeQEIdentityInvalid     Code = "QE_IDENTITY_INVALID"
	CodeTEETypeForbidden      Code = "TEE_TYPE_FORBIDDEN"
	CodeTDDebug               Code = "TD_DEBUG"
	CodeTDAttributesForbidden Code = "TD_ATTRIBUTES_FORBIDDEN"
	CodeEventLogInvalid       Code = "EVENT_LOG_INVALID"
	CodeEventLogAmbiguous     Code = "EVENT_LOG_AMBIGUOUS"

	CodeTCBOutOfDate          Code = "TCB_OUT_OF_DATE"
	CodeTCBAdvisoryBlocked    Code = "TCB_ADVISORY_BLOCKED"
	CodeMeasurementMismatch   Code = "MEASUREMENT_MISMATCH"
	CodeOSImageForbidden      Code = "OS_IMAGE_FORBIDDEN"
	CodeKMSPolicyMismatch     Code = "KMS_POLICY_MISMATCH"
	CodeAppIDMismatch         Code = "APP_ID_MISMATCH"
	CodeGuestImageNewer       Code = "GUEST_IMAGE_NEWER"
	CodeDeviceNotAllowed      Code = "DEVICE_NOT_ALLOWED"
	CodeImageNotPinned        Code = "IMAGE_NOT_PINNED"
	CodeComposeForbidden      Code = "COMPOSE_FORBIDDEN"
	CodeConfigUnauthenticated Code = "CONFIG_UNAUTHENTICATED"

	CodeCollateralExpired     Code = "COLLATERAL_EXPIRED"
	CodeCollateralUnavailable Code = "COLLATERAL_UNAVAILABLE"
	CodeClockUntrusted        Code = "CLOCK_UNTRUSTED"
	CodeVerifierUnavailable   Code = "VERIFIER_UNAVAILABLE"
	CodeGateUnreadable        Code = "GATE_UNREADABLE"

	CodeCollateralRollback   Code = "COLLATERAL_ROLLBACK"
	CodeVerifierInconsistent Code = "VERIFIER_INCONSISTENT"

	CodeRevisionNotAllowed  Code = "REVISION_NOT_ALLOWED"
	CodeRevisionNotApproved Code = "REVISION_NOT_APPROVED"
	CodeRevisionBelowFloor  Code = "REVISION_BELOW_FLOOR"
	CodeSlotUnknown         Code = "SLOT_UNKNOWN"
	CodeIdentityForbidden   Code = "IDENTITY_FORBIDDEN"
	CodeReattestRequired    Code = "REATTEST_REQUIRED"

	CodeMachineShared    Code = "MACHINE_SHARED"
	CodeMachineNotListed Code = "MACHINE_NOT_LISTED"
	CodeMachineUnknown   Code = "MACHINE_UNKNOWN"
	CodeMachineChanged   Code = "MACHINE_CHANGED"

	CodeSlotMismatch      Code = "SLOT_MISMATCH"
	CodeInstanceMismatch  Code = "INSTANCE_MISMATCH"
	CodeSlotTicketInvalid Code = "SLOT_TICKET_INVALID"
	CodeClusterMismatch   Code = "CLUSTER_MISMATCH"
	CodeCSRForbidden      Code = "CSR_FORBIDDEN"

	CodeInstanceConflict Code = "INSTANCE_CONFLICT"
	CodeIncarnationStale Code = "INCARNATION_STALE"

	CodeAdmissionRejected Code = "ADMISSION_REJECTED"

	CodeAdmissionTimeout Code = "ADMISSION_TIMEOUT"
	CodeTokenIssueFailed Code = "TOKEN_ISSUE_FAILED"

	CodeTokenExpired    Code = "TOKEN_EXPIRED"
	CodeTokenRevoked    Code = "TOKEN_REVOKED"
	CodeSVIDExpired     Code = "SVID_EXPIRED"
	CodeTURNCredExpired Code = "TURN_CRED_EXPIRED" //nolint:gosec // a code, not a credential

	CodeTokenBindingMismatch Code = "TOKEN_BINDING_MISMATCH"
	CodeTokenScopeDenied     Code = "TOKEN_SCOPE_DENIED" //nolint:gosec // a code, not a credential
	CodeRenewDenied          Code = "RENEW_DENIED"
	CodeSVIDUntrusted        Code = "SVID_UNTRUSTED"
	CodeSVIDIDInvalid        Code = "SVID_ID_INVALID"
	CodeExportForbidden      Code = "EXPORT_FORBIDDEN"
	CodeListenerForbidden    Code = "LISTENER_FORBIDDEN"

	CodeSIGUnauthenticated Code = "SIG_UNAUTHENTICATED"

	CodeSIGForged           Code = "SIG_FORGED"
	CodePeerIDMismatch      Code = "PEER_ID_MISMATCH"
	CodePeerNotAdmitted     Code = "PEER_NOT_ADMITTED"
	CodePeerRevoked         Code = "PEER_REVOKED"
	CodeResumptionForbidden Code = "RESUMPTION_FORBIDDEN"
	CodeRelayPeerForbidden  Code = "RELAY_PEER_FORBIDDEN"

	CodeSIGStaleEpoch   Code = "SIG_STALE_EPOCH"
	CodePeersetMismatch Code = "PEERSET_MISMATCH"

	CodePortForbidden      Code = "PORT_FORBIDDEN"
	CodeCandidateForbidden Code = "CANDIDATE_FORBIDDEN"
	CodeFrameInvalid       Code = "FRAME_INVALID"
	CodeLinkLimit          Code = "LINK_LIMIT"
	CodeIntentionDenied    Code = "INTENTION_DENIED"

	CodeRateLimited Code = "RATE_LIMITED"
	CodeOverloaded  Code = "OVERLOADED"

	CodeBrokerUntrusted Code = "BROKER_UNTRUSTED"

	CodeFenced         Code = "FENCED"
	CodeNotLeader      Code = "NOT_LEADER"
	CodePlanStale      Code = "PLAN_STALE"
	CodeSpecConflict   Code = "SPEC_CONFLICT"
	CodeSpecSuperseded Code = "SPEC_SUPERSEDED"
	CodeOpConflict     Code = "OP_CONFLICT"
	CodeGroupExists    Code = "GROUP_EXISTS"
	CodeGroupDeleting  Code = "GROUP_DELETING"

	CodeBackupTruncated    Code = "BACKUP_TRUNCATED"
	CodeBackupInvalid      Code = "BACKUP_INVALID"
	CodeBackupVersion      Code = "BACKUP_VERSION"
	CodeBackupOtherCluster Code = "BACKUP_OTHER_CLUSTER"
	CodeBackupTooLarge     Code = "BACKUP_TOO_LARGE"
	CodeBackupMACMismatch  Code = "BACKUP_MAC_MISMATCH"
	CodeAlreadyRestored    Code = "ALREADY_RESTORED"
	CodeRestoreOvertaken   Code = "RESTORE_OVERTAKEN"

	CodeEpochRegression            Code = "EPOCH_REGRESSION"
	CodeStateTampered              Code = "STATE_TAMPERED"
	CodeStateRollbackDetected      Code = "STATE_ROLLBACK_DETECTED"
	CodeAuditChainBroken           Code = "AUDIT_CHAIN_BROKEN"
	CodeRecoveryCheckpointMismatch Code = "RECOVERY_CHECKPOINT_MISMATCH"
	CodeDiskIdentityMismatch       Code = "DISK_IDENTITY_MISMATCH"
	CodeGenesisConflict            Code = "GENESIS_CONFLICT"
	CodeRecoveryUnauthenticated    Code = "RECOVERY_UNAUTHENTICATED"
	CodeCoordinatorNotApproved     Code = "COORDINATOR_NOT_APPROVED"

	CodeSpecInvalid         Code = "SPEC_INVALID"
	CodeSpecUnsafe          Code = "SPEC_UNSAFE"
	CodeVersionStep         Code = "VERSION_STEP"
	CodeSecretInSpec        Code = "SECRET_IN_SPEC"
	CodeSecretNoValue       Code = "SECRET_NO_VALUE"
	CodePolicyInvalid       Code = "POLICY_INVALID"
	CodeDebugForbidden      Code = "DEBUG_FORBIDDEN"
	CodeHookTargetForbidden Code = "HOOK_TARGET_FORBIDDEN"
	CodeExecForbidden       Code = "EXEC_FORBIDDEN"
	CodePathEscape          Code = "PATH_ESCAPE"

	CodeSpecSignatureInvalid   Code = "SPEC_SIGNATURE_INVALID"
	CodeCommandUnauthenticated Code = "COMMAND_UNAUTHENTICATED"

	CodeSpecRollback Code = "SPEC_ROLLBACK"
	CodeOpIDReused   Code = "OP_ID_REUSED"

	CodeQuorumAtRisk        Code = "QUORUM_AT_RISK"
	CodeBudgetExhausted     Code = "BUDGET_EXHAUSTED"
	CodeDiskDeleteForbidden Code = "DISK_DELETE_FORBIDDEN"
	CodeApprovalRequired    Code = "APPROVAL_REQUIRED"

	CodeRolloutHalted       Code = "ROLLOUT_HALTED"
	CodeHookTimeout         Code = "HOOK_TIMEOUT"
	CodeHookOutputTooLarge  Code = "HOOK_OUTPUT_TOO_LARGE"
	CodeHookFailed          Code = "HOOK_FAILED"
	CodeHealthContradiction Code = "HEALTH_CONTRADICTION"
	CodeDrainTimeout        Code = "DRAIN_TIMEOUT"

	CodePlatformUnavailable     Code = "PLATFORM_UNAVAILABLE"
	CodePlatformResponseInvalid Code = "PLATFORM_RESPONSE_INVALID"

	CodePlatformContradiction Code = "PLATFORM_CONTRADICTION"
	CodePlatformExtraInstance Code = "PLATFORM_EXTRA_INSTANCE"
	CodeOwnershipMismatch     Code = "OWNERSHIP_MISMATCH"
	CodeDiskMissing           Code = "DISK_MISSING"
)

// Class of c; empty for a code outside the list.
func (c Code) Class() Class { return classes[c] }

// Known reports whether c is on the closed list.
func (c Code) Known() bool { return classes[c] != "" }

var classes = map[Code]Class{
	CodeBadRequest:                 ClassCaller,
	CodeStatementNoncanonical:      ClassCaller,
	CodeQuoteMalformed:             ClassCaller,
	CodeUnsupportedVersion:         ClassCaller,
	CodeUnsupportedEncoding:        ClassCaller,
	CodeNameInvalid:                ClassCaller,
	CodeRequestTooLarge:            ClassCaller,
	CodeNonceInvalid:               ClassCaller,
	CodeNonceWrongContext:          ClassAlarm,
	CodeChannelBindingMismatch:     ClassAlarm,
	CodeReportDataMismatch:         ClassAlarm,
	CodeStatementMismatch:          ClassAlarm,
	CodeQuoteInvalid:               ClassAlarm,
	CodeQuoteRevoked:               ClassAlarm,
	CodeQEIdentityInvalid:          ClassAlarm,
	CodeTEETypeForbidden:           ClassAlarm,
	CodeTDDebug:                    ClassAlarm,
	CodeTDAttributesForbidden:      ClassAlarm,
	CodeEventLogInvalid:            ClassAlarm,
	CodeEventLogAmbiguous:          ClassAlarm,
	CodeTCBOutOfDate:               ClassPolicy,
	CodeTCBAdvisoryBlocked:         ClassPolicy,
	CodeMeasurementMismatch:        ClassPolicy,
	CodeOSImageForbidden:           ClassPolicy,
	CodeKMSPolicyMismatch:          ClassPolicy,
	CodeAppIDMismatch:              ClassPolicy,
	CodeGuestImageNewer:            ClassPolicy,
	CodeDeviceNotAllowed:           ClassPolicy,
	CodeImageNotPinned:             ClassPolicy,
	CodeComposeForbidden:           ClassPolicy,
	CodeConfigUnauthenticated:      ClassPolicy,
	CodeCollateralExpired:          ClassRetry,
	CodeCollateralUnavailable:      ClassRetry,
	CodeClockUntrusted:             ClassRetry,
	CodeVerifierUnavailable:        ClassRetry,
	CodeGateUnreadable:             ClassRetry,
	CodeCollateralRollback:         ClassAlarm,
	CodeVerifierInconsistent:       ClassAlarm,
	CodeRevisionNotAllowed:         ClassPolicy,
	CodeRevisionNotApproved:        ClassPolicy,
	CodeRevisionBelowFloor:         ClassPolicy,
	CodeSlotUnknown:                ClassPolicy,
	CodeIdentityForbidden:          ClassPolicy,
	CodeReattestRequired:           ClassPolicy,
	CodeMachineShared:              ClassPolicy,
	CodeMachineNotListed:           ClassPolicy,
	CodeMachineUnknown:             ClassRetry,
	CodeMachineChanged:             ClassPolicy,
	CodeSlotMismatch:               ClassAlarm,
	CodeInstanceMismatch:           ClassAlarm,
	CodeSlotTicketInvalid:          ClassAlarm,
	CodeClusterMismatch:            ClassAlarm,
	CodeCSRForbidden:               ClassAlarm,
	CodeInstanceConflict:           ClassAlarm,
	CodeIncarnationStale:           ClassAlarm,
	CodeAdmissionRejected:          ClassPolicy,
	CodeAdmissionTimeout:           ClassRetry,
	CodeTokenIssueFailed:           ClassRetry,
	CodeTokenExpired:               ClassCaller,
	CodeTokenRevoked:               ClassCaller,
	CodeSVIDExpired:                ClassCaller,
	CodeTURNCredExpired:            ClassCaller,
	CodeTokenBindingMismatch:       ClassAlarm,
	CodeTokenScopeDenied:           ClassAlarm,
	CodeRenewDenied:                ClassAlarm,
	CodeSVIDUntrusted:              ClassAlarm,
	CodeSVIDIDInvalid:              ClassAlarm,
	CodeExportForbidden:            ClassAlarm,
	CodeListenerForbidden:          ClassAlarm,
	CodeSIGUnauthenticated:         ClassCaller,
	CodeSIGForged:                  ClassAlarm,
	CodePeerIDMismatch:             ClassAlarm,
	CodePeerNotAdmitted:            ClassAlarm,
	CodePeerRevoked:                ClassAlarm,
	CodeResumptionForbidden:        ClassAlarm,
	CodeRelayPeerForbidden:         ClassAlarm,
	CodeSIGStaleEpoch:              ClassState,
	CodePeersetMismatch:            ClassState,
	CodePortForbidden:              ClassPolicy,
	CodeCandidateForbidden:         ClassPolicy,
	CodeFrameInvalid:               ClassPolicy,
	CodeLinkLimit:                  ClassPolicy,
	CodeIntentionDenied:            ClassPolicy,
	CodeRateLimited:                ClassRetry,
	CodeOverloaded:                 ClassRetry,
	CodeBrokerUntrusted:            ClassAlarm,
	CodeFenced:                     ClassState,
	CodeNotLeader:                  ClassState,
	CodePlanStale:                  ClassState,
	CodeSpecConflict:               ClassState,
	CodeSpecSuperseded:             ClassState,
	CodeOpConflict:                 ClassState,
	CodeGroupExists:                ClassState,
	CodeGroupDeleting:              ClassState,
	CodeBackupTruncated:            ClassCaller,
	CodeBackupInvalid:              ClassCaller,
	CodeBackupVersion:              ClassCaller,
	CodeBackupOtherCluster:         ClassCaller,
	CodeBackupTooLarge:             ClassCaller,
	CodeBackupMACMismatch:          ClassAlarm,
	CodeAlreadyRestored:            ClassState,
	CodeRestoreOvertaken:           ClassState,
	CodeEpochRegression:            ClassAlarm,
	CodeStateTampered:              ClassAlarm,
	CodeStateRollbackDetected:      ClassAlarm,
	CodeAuditChainBroken:           ClassAlarm,
	CodeRecoveryCheckpointMismatch: ClassAlarm,
	CodeDiskIdentityMismatch:       ClassAlarm,
	CodeGenesisConflict:            ClassAlarm,
	CodeRecoveryUnauthenticated:    ClassAlarm,
	CodeCoordinatorNotApproved:     ClassAlarm,
	CodeSpecInvalid:                ClassCaller,
	CodeSpecUnsafe:                 ClassCaller,
	CodeVersionStep:                ClassCaller,
	CodeSecretInSpec:               ClassCaller,
	CodeSecretNoValue:              ClassPolicy,
	CodePolicyInvalid:              ClassCaller,
	CodeDebugForbidden:             ClassCaller,
	CodeHookTargetForbidden:        ClassCaller,
	CodeExecForbidden:              ClassCaller,
	CodePathEscape:                 ClassCaller,
	CodeSpecSignatureInvalid:       ClassAlarm,
	CodeCommandUnauthenticated:     ClassAlarm,
	CodeSpecRollback:               ClassCaller,
	CodeOpIDReused:                 ClassCaller,
	CodeQuorumAtRisk:               ClassPolicy,
	CodeBudgetExhausted:            ClassPolicy,
	CodeDiskDeleteForbidden:        ClassPolicy,
	CodeApprovalRequired:           ClassPolicy,
	CodeRolloutHalted:              ClassPolicy,
	CodeHookTimeout:                ClassPolicy,
	CodeHookOutputTooLarge:         ClassPolicy,
	CodeHookFailed:                 ClassPolicy,
	CodeHealthContradiction:        ClassPolicy,
	CodeDrainTimeout:               ClassPolicy,
	CodePlatformUnavailable:        ClassRetry,
	CodePlatformResponseInvalid:    ClassRetry,
	CodePlatformContradiction:      ClassAlarm,
	CodePlatformExtraInstance:      ClassAlarm,
	CodeOwnershipMismatch:          ClassAlarm,
	CodeDiskMissing:                ClassAlarm,
}
