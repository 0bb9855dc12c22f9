// Package overlayv1 is a node's report about its Links in the overlay: agents report to
// coordinators, and coordinators to operators. The report is for people and figures; no decision
// uses it. All but this page is generated from overlay.proto.
package overlayv1
