// Package quorum holds the rules of a vote: who voted how, what that decides, and which fencing
// token a majority can agree on. It is pure: no network, no clock, no context.
package quorum

// Need returns how many nodes make a quorum: the majority of the cluster's members, whether or not
// a client lists or reaches them. Any two quorums have a node in common.
func Need(nodes int) int { return nodes/2 + 1 }
