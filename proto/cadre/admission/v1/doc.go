// Package admissionv1 is the wire contract between a Boot that asks for admission and
// the coordinator that decides: challenge, evidence, credentials, admission status. It is served
// on the first-contact stream of an overlay Session, the only stream that an unadmitted
// Boot may open. All but this page is generated from admission.proto.
package admissionv1
