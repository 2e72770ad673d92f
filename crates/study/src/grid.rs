//! Grids: all combinations of the settings of a study.

use crate::error::{Result, StudyError};
use crate::point::{Data, Point};

/// Mode of ranks, which have no servers.
const RANKS: &str = "horovod";
/// Mode of a process that trains alone.
const ALONE: &str = "independent";
/// Maximum number of points.
const MAX_POINTS: usize = 10_000;

/// Meaning of the batch when tasks are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// Each task keeps the batch: the work grows with the tasks.
    Weak,
    /// The tasks share the batch: the work stays the same.
    Strong,
}

impl Scaling {
    /// Batch of the grid that a point is of: that of its tasks, or of all of them together.
    ///
    /// ```
    /// use thalweg_study::{Data, Point, Scaling};
    ///
    /// let mode = "horovod".to_owned();
    /// let point = Point { mode, data: Data::Synthetic, batch: 16, tasks: 4, servers: 0 };
    /// assert_eq!((Scaling::Weak.grid_batch(&point), Scaling::Strong.grid_batch(&point)), (16, 64));
    /// ```
    pub fn grid_batch(self, point: &Point) -> u32 {
        match self {
            Scaling::Weak => point.batch,
            Scaling::Strong => point.batch.saturating_mul(point.tasks),
        }
    }
}

/// Settings of a study, of which all combinations are run.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Numbers of workers or ranks.
    pub tasks: Vec<u32>,
    /// Numbers of parameter servers; empty for 1, 2, 4, ... and the number of workers. A point has at most as many servers as
    /// workers.
    pub servers: Vec<u32>,
    /// Batches: images of a step of one task, or of all tasks ([`Scaling`]).
    pub batches: Vec<u32>,
    /// Ways to update variables: `parameter_server`, `distributed_replicated`, `horovod`.
    pub modes: Vec<String>,
    /// Kinds of images.
    pub data: Vec<Data>,
    /// Meaning of the batches.
    pub scaling: Scaling,
}

impl Grid {
    /// All points: those of one process first, to which the others are compared; then by number of tasks.
    ///
    /// # Errors
    /// A list is empty or has a zero; a batch cannot be divided among the tasks; there are too many points.
    ///
    /// ```
    /// use thalweg_study::{Data, Grid, Scaling};
    ///
    /// let grid = Grid {
    ///     tasks: vec![1, 4],
    ///     servers: Vec::new(),
    ///     batches: vec![32],
    ///     modes: vec!["parameter_server".to_owned()],
    ///     data: vec![Data::Synthetic],
    ///     scaling: Scaling::Weak,
    /// };
    /// let servers: Vec<(u32, u32)> = grid.points()?.iter().map(|p| (p.tasks, p.servers)).collect();
    /// assert_eq!(servers, [(1, 0), (1, 1), (4, 1), (4, 2), (4, 4)]);
    /// # Ok::<(), thalweg_study::StudyError>(())
    /// ```
    pub fn points(&self) -> Result<Vec<Point>> {
        self.check()?;
        let mut points = Vec::new();
        for &data in &self.data {
            for &batch in &self.batches {
                points.push(Point {
                    mode: ALONE.to_owned(),
                    data,
                    batch,
                    tasks: 1,
                    servers: 0,
                });
            }
        }
        for &tasks in &self.tasks {
            for mode in &self.modes {
                for servers in self.servers_of(mode, tasks) {
                    for &data in &self.data {
                        for &batch in &self.batches {
                            points.push(Point {
                                mode: mode.clone(),
                                data,
                                batch: self.batch_of_task(batch, tasks)?,
                                tasks,
                                servers,
                            });
                        }
                    }
                }
                if points.len() > MAX_POINTS {
                    return Err(StudyError::Grid(format!(
                        "the grid has more than {MAX_POINTS} points: give fewer values"
                    )));
                }
            }
        }
        Ok(points)
    }

    fn check(&self) -> Result<()> {
        let lists = [
            ("tasks", self.tasks.is_empty() || self.tasks.contains(&0)),
            (
                "batches",
                self.batches.is_empty() || self.batches.contains(&0),
            ),
            ("modes", self.modes.is_empty()),
            ("data", self.data.is_empty()),
            ("servers", self.servers.contains(&0)),
        ];
        match lists.into_iter().find(|(_, wrong)| *wrong) {
            Some((name, _)) => Err(StudyError::Grid(format!(
                "{name}: give numbers from 1 on, or names, and at least one"
            ))),
            None => Ok(()),
        }
    }

    /// Numbers of servers for so many workers. Ranks have none, and one rank is the process that trains alone.
    fn servers_of(&self, mode: &str, tasks: u32) -> Vec<u32> {
        if mode == RANKS {
            return match tasks {
                1 => Vec::new(),
                _ => vec![0],
            };
        }
        let mut all = match self.servers.is_empty() {
            true => {
                let doubled = std::iter::successors(Some(1u32), |n| n.checked_mul(2));
                doubled.take_while(|n| *n < tasks).chain([tasks]).collect()
            }
            false => self.servers.clone(),
        };
        all.retain(|servers| *servers <= tasks);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn batch_of_task(&self, batch: u32, tasks: u32) -> Result<u32> {
        match self.scaling {
            Scaling::Weak => Ok(batch),
            Scaling::Strong if batch.is_multiple_of(tasks) => Ok(batch / tasks),
            Scaling::Strong => Err(StudyError::Grid(format!(
                "a batch of {batch} cannot be divided among {tasks} tasks: give a multiple"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(scaling: Scaling, modes: &[&str]) -> Grid {
        Grid {
            tasks: vec![1, 2, 6],
            servers: Vec::new(),
            batches: vec![48],
            modes: modes.iter().map(|m| (*m).to_owned()).collect(),
            data: vec![Data::Synthetic],
            scaling,
        }
    }

    fn numbers(grid: &Grid) -> Vec<(u32, u32, u32)> {
        let points = grid.points().unwrap().into_iter();
        points.map(|p| (p.tasks, p.servers, p.batch)).collect()
    }

    #[test]
    fn ranks_have_no_servers_and_one_rank_is_the_process_alone() {
        let ranks = numbers(&grid(Scaling::Weak, &["horovod"]));
        assert_eq!(ranks, [(1, 0, 48), (2, 0, 48), (6, 0, 48)]);
    }

    #[test]
    fn servers_are_doubled_up_to_the_number_of_workers() {
        let all = numbers(&grid(Scaling::Strong, &["parameter_server"]));
        let expected = [
            (1, 0, 48),
            (1, 1, 48),
            (2, 1, 24),
            (2, 2, 24),
            (6, 1, 8),
            (6, 2, 8),
            (6, 4, 8),
            (6, 6, 8),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn given_servers_are_taken_where_there_are_as_many_workers() {
        let mut grid = grid(Scaling::Weak, &["parameter_server"]);
        grid.servers = vec![4, 2, 2];
        assert_eq!(
            numbers(&grid),
            [(1, 0, 48), (2, 2, 48), (6, 2, 48), (6, 4, 48)]
        );
    }

    #[test]
    fn mistakes_are_named() {
        let error = |change: &dyn Fn(&mut Grid)| {
            let mut grid = grid(Scaling::Strong, &["horovod"]);
            change(&mut grid);
            grid.points().unwrap_err().to_string()
        };
        assert!(error(&|g| g.tasks.clear()).starts_with("tasks: "));
        assert!(error(&|g| g.servers = vec![0]).starts_with("servers: "));
        assert!(error(&|g| g.batches = vec![50]).contains("cannot be divided among 6 tasks"));
        assert!(error(&|g| g.batches = vec![6; 20_000]).contains("more than 10000 points"));
    }
}
