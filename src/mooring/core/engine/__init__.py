"""From a snapshot and a pod to a Decision: filters, scores, ties, nominated pods, pod groups, preemption."""
