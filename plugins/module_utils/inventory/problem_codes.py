# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with an inventory: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

_REMEDY_PLAN = "Run the playbook gpufleet.sglang.plan with --limit for these hosts; it shows the figures behind it."

CODES: dict[str, ProblemCode] = {
    "inventory_empty": ProblemCode(
        "error",
        "The inventory has no host, so that nothing was checked.",
        "Name the inventory with -i, and look at what ansible-inventory --graph shows.",
    ),
    "variable_unknown": ProblemCode(
        "error",
        "A variable has a prefix of the collection and is none that it knows: it has no effect, and roles refuse it.",
        "Correct the name, or give a variable of your own another prefix.",
    ),
    "variable_removed": ProblemCode(
        "error",
        "A variable was known to an earlier release of the collection and is no longer.",
        "Use what replaces it.",
    ),
    "variable_missing": ProblemCode(
        "error",
        "A variable that a role cannot do without is not set.",
        "Set it for these hosts, or for a group that they are in.",
    ),
    "variable_type": ProblemCode(
        "error",
        "A value is of another type than the role takes.",
        "Correct the value.",
    ),
    "variable_choice": ProblemCode(
        "error",
        "A value is none of those that the role takes.",
        "Set one of those.",
    ),
    "variable_undefined": ProblemCode(
        "warning",
        "A value refers to a variable that the inventory does not set.",
        "Set that variable, or see to it that the play gives it (-e, a vault). Until then the value was not checked.",
    ),
    "variable_set_later": ProblemCode(
        "info",
        "A value refers to what a role hands over while the play runs, so that it cannot be checked beforehand.",
        "Nothing is to be done.",
    ),
    "variable_of_paper": ProblemCode(
        "error",
        "A node that exists has a machine or a model on paper, which the role refuses.",
        "Put a host that is only planned into the group sglang_paper, and no other; else take the variable away.",
    ),
    "variable_not_played": ProblemCode(
        "error",
        "A variable says something that this release of the collection can check and not yet put into force.",
        "Plan such hosts on paper (group sglang_paper), or take the variable away.",
    ),
    "list_of_instances_wrong": ProblemCode(
        "error",
        "An entry of sglang_instances cannot be meant as it is.",
        "Correct the entry; ansible-doc -t role gpufleet.sglang.sglang says what one may hold.",
    ),
    "instance_gpu_twice": ProblemCode(
        "error",
        "One GPU is given to two ranks of a host.",
        "State other GPUs, or none, so that the planner seats the instances beside each other.",
    ),
    "host_port_twice": ProblemCode(
        "error",
        "Two servers of a host, or two parts of one, would bind the same port.",
        "Give each a port of its own, or set port to null for an instance, to have it chosen.",
    ),
    "host_port_impossible": ProblemCode(
        "error",
        "A server would take a port that does not exist.",
        "Choose another port, such as 30000.",
    ),
    "address_shared": ProblemCode(
        "error",
        "Two hosts that would both be provisioned are one machine by their address.",
        "Correct ansible_host or ansible_port of one; several servers of one machine belong into sglang_instances.",
    ),
    "address_impossible": ProblemCode(
        "error",
        "An address is none.",
        "Correct it.",
    ),
    "subnet_impossible": ProblemCode(
        "error",
        "A subnet is none.",
        "Write it as the address of the network and the length of its prefix, such as 10.0.0.0/24.",
    ),
    "subnet_without_host": ProblemCode(
        "error",
        "No address of a host is in the subnet that is declared for it.",
        "Correct sglang_subnet, or the address of the host.",
    ),
    "subnet_ambiguous": ProblemCode(
        "warning",
        "A host has several addresses in the subnet that is declared for it, and none of them is the one to take.",
        "Declare a smaller subnet.",
    ),
    "subnet_unproven": ProblemCode(
        "warning",
        "No address of a host is known, so that nothing can be held against the subnet that is declared for it.",
        "Set ansible_host to an address, or keep facts of the host in a fact cache.",
    ),
    "replica_member_twice": ProblemCode(
        "error",
        "A replica has the same node twice.",
        "Name the replica in the variables of each of its nodes once, and correct addresses that are the same.",
    ),
    "replica_differs": ProblemCode(
        "error",
        "The nodes of a replica are declared in different ways, with which they cannot serve one model together.",
        "Set it in a group that holds all nodes of the replica.",
    ),
    "replica_without_address": ProblemCode(
        "error",
        "A node of a replica has no address that the others could meet it at.",
        "Declare the subnet of the network between the nodes, such as sglang_subnet 10.0.0.0/24.",
    ),
    "replica_indivisible": ProblemCode(
        "error",
        "The ranks of a replica do not divide over its nodes, or are more than a node has GPUs.",
        "Change sglang_tensor_parallel_size or sglang_pipeline_parallel_size, or the number of nodes.",
    ),
    "disaggregation_alone": ProblemCode(
        "warning",
        "Servers of a model only prefill or only decode, and the inventory has none for the other part.",
        "Add hosts with the other sglang_disaggregation_mode for the same sglang_served_model_name.",
    ),
    "disaggregation_impossible": ProblemCode(
        "error",
        "Prompts cannot be handed over from servers that prefill to servers that decode as it is declared.",
        "Set sglang_disaggregation_transfer_backend to one that all of them have.",
    ),
    "query_not_met": ProblemCode(
        "error",
        "A query of validate_queries gives something else than is expected.",
        "See what the query is for.",
    ),
    "query_impossible": ProblemCode(
        "error",
        "A query of validate_queries cannot be asked.",
        "Correct it; https://jmespath.org says what can be asked.",
    ),
    "python_library_missing": ProblemCode(
        "error",
        "A Python library that a check needs is not installed on the controller, so that it could not be made.",
        "Install it into the environment that Ansible runs in.",
    ),
    "plan_impossible": ProblemCode(
        "error",
        "What is declared does not fit on the machine.",
        _REMEDY_PLAN,
    ),
    "plan_doubtful": ProblemCode(
        "warning",
        "The plan of what is declared has a warning.",
        _REMEDY_PLAN,
    ),
    "plan_not_made": ProblemCode(
        "info",
        "The memory of a host could not be planned, as its machine or its model is not known here.",
        "Give the machine and the model on paper (sglang_paper_machine, sglang_paper_model), or name a folder of saved "
        "surveys (validate_surveys).",
    ),
}
