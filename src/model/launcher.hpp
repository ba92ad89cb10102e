// How launchers tell a process which rank of which job it is: names of environment variables, in the order in which
// they are asked. The innermost launcher comes first: torchrun under srun means the rank that torchrun gave. Needs libc
// alone; the probe uses it, too.
#pragma once

namespace tracesmith::model::launcher {

/// torchrun, Ray Train and PyTorchJob; Open MPI; PMIx (srun --mpi=pmix, prrte); MVAPICH2; MPICH, Intel MPI and
/// srun --mpi=pmi2; Horovod; Slurm. Each list ends with a null.
inline constexpr const char* kRank[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "MV2_COMM_WORLD_RANK",
                                        "PMI_RANK", "HOROVOD_RANK",         "SLURM_PROCID", nullptr};
inline constexpr const char* kWorldSize[] = {"WORLD_SIZE",   "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                                             "HOROVOD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",        nullptr};
inline constexpr const char* kLocalRank[] = {"LOCAL_RANK",
                                             "OMPI_COMM_WORLD_LOCAL_RANK",
                                             "MV2_COMM_WORLD_LOCAL_RANK",
                                             "MPI_LOCALRANKID",
                                             "HOROVOD_LOCAL_RANK",
                                             "SLURM_LOCALID",
                                             nullptr};
/// Ranks on this node.
inline constexpr const char* kLocalSize[] = {"LOCAL_WORLD_SIZE",
                                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                                             "MV2_COMM_WORLD_LOCAL_SIZE",
                                             "MPI_LOCALNRANKS",
                                             "HOROVOD_LOCAL_SIZE",
                                             "SLURM_NTASKS_PER_NODE",
                                             nullptr};

/// The job, as whoever schedules it numbers it: Slurm, torchrun, PBS, LSF, Grid Engine.
inline constexpr const char* kJob[] = {
    "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "RAY_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", nullptr};
/// A step of a Slurm job: one srun.
inline constexpr const char* kStep[] = {"SLURM_STEP_ID", nullptr};

/// Kubernetes. The first two are set where the pod's manifest says so; the host name of a container is its pod's name
/// unless the pod says otherwise.
inline constexpr const char* kPod[] = {"POD_NAME", nullptr};
inline constexpr const char* kNamespace[] = {"POD_NAMESPACE", nullptr};
inline constexpr const char kInKubernetes[] = "KUBERNETES_SERVICE_HOST";
inline constexpr const char kHostName[] = "HOSTNAME";
inline constexpr const char kNamespaceFile[] = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

}  // namespace tracesmith::model::launcher
